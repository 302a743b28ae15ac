"""Which sessions name which archived originals: what deleting one asks, without reading all the others."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

_edit = sa.table("context_edit", sa.column("thread"), sa.column("payload"))
_archive = sa.table("checkpoint_archive", sa.column("thread"), sa.column("rows"))
_handle = sa.table("original_handle", sa.column("handle"), sa.column("thread"))


def upgrade() -> None:
    op.create_table(
        "original_handle",
        sa.Column("handle", sa.Text, primary_key=True),
        sa.Column(
            "thread",
            sa.Integer,
            sa.ForeignKey("thread.key", ondelete="CASCADE"),
            primary_key=True,
            autoincrement=False,
        ),
    )
    op.create_index("ix_original_handle_thread", "original_handle", ["thread"])
    connection = op.get_bind()
    found = {
        (handle, thread)
        for thread, payload in _payloads(connection)
        if isinstance(handle := _handle_of(payload), str)
    }
    if found:
        connection.execute(
            _handle.insert(), [{"handle": handle, "thread": thread} for handle, thread in sorted(found)]
        )


def _payloads(connection: sa.Connection) -> Iterator[tuple[int, str]]:
    for thread, payload in connection.execute(sa.select(_edit.c.thread, _edit.c.payload)):
        yield thread, payload
    for thread, rows in connection.execute(sa.select(_archive.c.thread, _archive.c.rows)):
        for payload in _packed(bytes(rows)):
            yield thread, payload


def _packed(rows: bytes) -> Iterator[str]:
    """The edits of an archive as format 1 packs them; none of a damaged one, whose originals then stay for ever."""
    try:
        lines = [json.loads(line) for line in zlib.decompress(rows).splitlines()]
    except (zlib.error, ValueError):
        return
    for line in lines:
        if isinstance(line, list) and line[0] == "context_edit":
            payload = line[3]
            yield base64.b64decode(payload["base64"]).decode() if isinstance(payload, dict) else payload


def _handle_of(payload: str) -> object:
    try:
        edit = json.loads(payload)
    except ValueError:
        return None
    return edit.get("handle") or None if isinstance(edit, dict) else None
