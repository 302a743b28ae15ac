"""Knowledge bases: many chunks per row, with vectors, words and texts packed."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

_KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_CHUNKS = 32
_OLD = ("number", "heading", "position", "content", "vector", "terms")
_NEW = ("document", "number", "chunks", "lengths", "words", "vectors", "places", "texts")
_chunk = sa.table("knowledge_chunk", *(sa.column(name) for name in ("key", "document", *_OLD)))
_part = sa.table("knowledge_part", *(sa.column(name) for name in _NEW))

_USER = "(SELECT current_setting('zeus.user_id', true))"
_ROLE = "(SELECT current_setting('zeus.role', true))"
_OWN = f"created_by = {_USER} AND {_USER} <> ''"
_HERE = "scope = 'project' AND scope_id = (SELECT current_setting('zeus.project_id', true))"
_CHANGED = (
    f"(scope = 'user' AND scope_id = {_USER} AND {_USER} <> '')"
    f" OR ({_HERE} AND ({_ROLE} IN ('owner', 'admin') OR ({_ROLE} = 'editor' AND {_OWN})))"
)
_PLACE = (
    "knowledge_document AS whole JOIN knowledge_base AS of ON of.key = whole.base"
    " WHERE whole.key = knowledge_part.document"
)
_FORCED = "SELECT relforcerowsecurity FROM pg_class WHERE oid = 'knowledge_chunk'::regclass"


def rewrites_data(connection: sa.Connection) -> bool:
    """Whether there are chunks."""
    there = sa.inspect(connection).has_table("knowledge_chunk")
    return there and connection.execute(sa.select(_chunk.c.key).limit(1)).first() is not None


def upgrade() -> None:
    op.create_table(
        "knowledge_part",
        sa.Column("key", _KEY, primary_key=True, autoincrement=True),
        sa.Column(
            "document", _KEY, sa.ForeignKey("knowledge_document.key", ondelete="CASCADE"), nullable=False
        ),
        *(sa.Column(name, sa.Integer, nullable=False) for name in ("number", "chunks")),
        *(sa.Column(name, sa.LargeBinary, nullable=False) for name in ("lengths", "words", "vectors")),
        sa.Column("places", sa.Text, nullable=False),
        sa.Column("texts", sa.LargeBinary, nullable=False),
    )
    op.create_index("knowledge_part_of", "knowledge_part", ["document", "number"], unique=True)
    connection = op.get_bind()
    is_server = connection.dialect.name == "postgresql"
    if is_server:
        # An owner to whom row-level security applies would see no chunks, and the old table would be dropped with them.
        op.execute("SELECT set_config('zeus.upkeep', 'on', true)")
    documents = sa.select(_chunk.c.document).distinct().order_by(_chunk.c.document)
    for document in connection.execute(documents).scalars().all():
        for rows in _runs(connection, document):
            connection.execute(_part.insert(), {"document": document, **_packed(rows)})
    if is_server:
        _secure_rows()
        if connection.execute(sa.text(_FORCED)).scalar():
            op.execute("ALTER TABLE knowledge_part FORCE ROW LEVEL SECURITY")
    op.drop_table("knowledge_chunk")


def _runs(connection: sa.Connection, document: int) -> Iterator[Sequence[Any]]:
    """A document's chunks, in groups that fill one row."""
    columns = sa.select(*(_chunk.c[name] for name in _OLD))
    query = columns.where(_chunk.c.document == document).order_by(_chunk.c.number).limit(_CHUNKS)
    last = -1
    while rows := connection.execute(query.where(_chunk.c.number > last)).all():
        yield rows
        last = rows[-1].number


def _packed(rows: Sequence[Any]) -> dict[str, object]:
    words = [_repeated(bytes(row.terms)) for row in rows]
    every = [number for each in words for number in each]
    return {
        "number": rows[0].number,
        "chunks": len(rows),
        "lengths": struct.pack(f"<{len(rows)}I", *map(len, words)),
        "words": struct.pack(f"<{len(every)}I", *every),
        "vectors": b"".join([bytes(row.vector) for row in rows]),
        "places": json.dumps([(row.heading, row.position, len(row.content)) for row in rows]),
        "texts": "".join([row.content for row in rows]).encode("utf-8", "surrogatepass"),
    }


def _repeated(terms: bytes) -> list[int]:
    """Words that were stored once with a count, repeated as often as they occur."""
    count = len(terms) // 6
    words = struct.unpack(f"<{count}I", terms[: count * 4])
    often = struct.unpack(f"<{count}H", terms[count * 4 :])
    return [word for word, times in zip(words, often, strict=True) for _ in range(times)]


def _secure_rows() -> None:
    changed = f"EXISTS (SELECT FROM {_PLACE} AND ({_CHANGED}))"
    rules = {
        "SELECT": f"EXISTS (SELECT FROM {_PLACE})",
        **dict.fromkeys(("INSERT", "UPDATE", "DELETE"), changed),
    }
    op.execute("ALTER TABLE knowledge_part ENABLE ROW LEVEL SECURITY")
    for command, rule in rules.items():
        allowed = f"((SELECT current_setting('zeus.upkeep', true)) = 'on' OR {rule})"
        clauses = {"INSERT": f"WITH CHECK {allowed}", "UPDATE": f"USING {allowed} WITH CHECK {allowed}"}
        clause = clauses.get(command, f"USING {allowed}")
        op.execute(f"CREATE POLICY zeus_{command.lower()} ON knowledge_part FOR {command} {clause}")
