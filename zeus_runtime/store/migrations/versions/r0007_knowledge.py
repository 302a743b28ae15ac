"""Knowledge bases: their sources, documents and chunks."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

_KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _key() -> sa.Column[int]:
    return sa.Column("key", _KEY, primary_key=True, autoincrement=True)


def _of(name: str, table: str) -> sa.Column[int]:
    return sa.Column(name, _KEY, sa.ForeignKey(f"{table}.key", ondelete="CASCADE"), nullable=False)


def _texts(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text, nullable=False) for name in names]


def _wholes(*names: str) -> list[sa.Column[int]]:
    return [sa.Column(name, sa.Integer, nullable=False) for name in names]


def _longs(*names: str) -> list[sa.Column[int]]:
    return [sa.Column(name, sa.BigInteger, nullable=False) for name in names]


def upgrade() -> None:
    op.create_table(
        "knowledge_base",
        _key(),
        *_texts("name", "scope", "scope_id", "created_by", "embedding_model"),
        *_wholes("embedding_dimension", "chunk_tokens", "overlap_tokens"),
        *_longs("changes", "created_ms", "updated_ms"),
    )
    op.create_index("knowledge_base_of", "knowledge_base", ["scope", "scope_id", "name"], unique=True)
    op.create_table("knowledge_source", _key(), _of("base", "knowledge_base"), *_texts("path"))
    op.create_index("knowledge_source_of", "knowledge_source", ["base", "path"], unique=True)
    op.create_table(
        "knowledge_document",
        _key(),
        _of("base", "knowledge_base"),
        _of("source", "knowledge_source"),
        *_texts("path", "label", "digest", "made_with"),
        sa.Column("ready", sa.Boolean, nullable=False),
        *_wholes("chunks"),
        *_longs("size_bytes", "mtime_ns", "updated_ms"),
        sqlite_autoincrement=True,
    )
    op.create_index("knowledge_document_of", "knowledge_document", ["base", "path", "ready"], unique=True)
    op.create_table(
        "knowledge_chunk",
        _key(),
        _of("document", "knowledge_document"),
        *_wholes("number", "words"),
        *_texts("heading", "position", "content"),
        sa.Column("vector", sa.LargeBinary, nullable=False),
        sa.Column("terms", sa.LargeBinary, nullable=False),
    )
    op.create_index("knowledge_chunk_of", "knowledge_chunk", ["document", "number"], unique=True)
