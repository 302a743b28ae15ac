"""The files that each session names, so that deleting a session need not read all others."""

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
_message = sa.table("message", sa.column("thread"), sa.column("payload"))
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
    found = {(name, thread) for thread, payload in _payloads(connection) for name in _named(payload)}
    if found:
        connection.execute(
            _handle.insert(), [{"handle": handle, "thread": thread} for handle, thread in sorted(found)]
        )


def _payloads(connection: sa.Connection) -> Iterator[tuple[int, str]]:
    for source in (_edit, _message):
        for thread, payload in connection.execute(sa.select(source.c.thread, source.c.payload)):
            yield thread, payload
    for thread, rows in connection.execute(sa.select(_archive.c.thread, _archive.c.rows)):
        for payload in _packed(bytes(rows)):
            yield thread, payload


def _packed(rows: bytes) -> Iterator[str]:
    """Edits and messages of an archive in format 1; none of a damaged one, whose files then stay for ever."""
    try:
        lines = [json.loads(line) for line in zlib.decompress(rows).splitlines()]
    except (zlib.error, ValueError):
        return
    for line in lines:
        if isinstance(line, list) and line[0] in _PAYLOAD:
            payload = line[_PAYLOAD[line[0]]]
            yield base64.b64decode(payload["base64"]).decode() if isinstance(payload, dict) else payload


_PAYLOAD = {"context_edit": 3, "message": 4}


def _named(payload: str) -> set[str]:
    if not any(sign in payload for sign in ('"handle"', '"references"', '"pictures"')):
        return set()
    try:
        value = json.loads(payload)
    except ValueError:
        return set()
    if not isinstance(value, dict):
        return set()
    more = value.get("additional_kwargs") or {}
    named = [value.get("handle")]
    named += [each.get("copy") for each in more.get("references") or ()]
    named += [each.get("path") for each in more.get("pictures") or ()]
    return {each for each in named if each and isinstance(each, str)}
