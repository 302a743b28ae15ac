"""The tables of knowledge bases, for SQLite and PostgreSQL alike. Times are UTC, in milliseconds since 1970.

The chunks of a document are packed into rows with their words, so that words exist exactly as long as their chunks, on
either database; the same code searches them. Vectors are in the vector store, in the base's collection.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    text,
)
from sqlalchemy.schema import CreateIndex, CreateTable

from zeus_runtime.store.row_security import secure_rows

_METADATA: Final = MetaData()
_KEY: Final = BigInteger().with_variant(Integer(), "sqlite")


def _key() -> Column[int]:
    return Column("key", _KEY, primary_key=True, autoincrement=True)


def _of(name: str, table: str) -> Column[int]:
    return Column(name, _KEY, ForeignKey(f"{table}.key", ondelete="CASCADE"), nullable=False)


def _texts(*names: str) -> list[Column[str]]:
    return [Column(name, Text, nullable=False) for name in names]


def _wholes(*names: str) -> list[Column[int]]:
    return [Column(name, Integer, nullable=False) for name in names]


def _longs(*names: str) -> list[Column[int]]:
    return [Column(name, BigInteger, nullable=False) for name in names]


def _blobs(*names: str) -> list[Column[bytes]]:
    return [Column(name, LargeBinary, nullable=False) for name in names]


BASE: Final = Table(
    "knowledge_base",
    _METADATA,
    _key(),
    *_texts("name", "scope", "scope_id", "created_by", "embedding_model"),
    *_wholes("embedding_dimension", "chunk_tokens", "overlap_tokens"),
    *_longs("changes", "created_ms", "updated_ms"),
    Column("collection", Text, nullable=False, server_default=text("''")),
    Index("knowledge_base_of", "scope", "scope_id", "name", unique=True),
)
"""A knowledge base: its owner, and how its texts are cut. ``changes`` counts the writes to it. ``collection`` names its
vectors in the vector store; it is empty before the first of them."""

SOURCE: Final = Table(
    "knowledge_source",
    _METADATA,
    _key(),
    _of("base", "knowledge_base"),
    *_texts("path"),
    Index("knowledge_source_of", "base", "path", unique=True),
)
"""A file or folder that was added, and is read again when the base is updated."""

DOCUMENT: Final = Table(
    "knowledge_document",
    _METADATA,
    _key(),
    _of("base", "knowledge_base"),
    _of("source", "knowledge_source"),
    *_texts("path", "label", "digest", "made_with"),
    Column("ready", Boolean, nullable=False),
    *_wholes("chunks"),
    *_longs("size_bytes", "mtime_ns", "updated_ms"),
    Index("knowledge_document_of", "base", "path", "ready", unique=True),
    sqlite_autoincrement=True,
)
"""A file as it was when it was read. If it is not ``ready``, it is being written, and only its vectors are used."""

PART: Final = Table(
    "knowledge_part",
    _METADATA,
    _key(),
    _of("document", "knowledge_document"),
    *_wholes("number", "chunks"),
    *_blobs("lengths", "words", "vectors"),
    *_texts("places"),
    *_blobs("texts"),
    Column("digests", LargeBinary, nullable=False, server_default=text("''")),
    Index("knowledge_part_of", "document", "number", unique=True),
)
"""Some chunks of a document, packed by ``knowledge.parts``. ``digests`` are those of the chunks' vectors. A row from
before revision 0014 has no digests; its own ``vectors`` are used until its file is read again."""

KNOWLEDGE_TABLES: Final = (BASE, SOURCE, DOCUMENT, PART)


def create_knowledge_tables(connection: Connection) -> None:
    """Make the missing tables and indexes, in the transaction of ``connection``."""
    for table in KNOWLEDGE_TABLES:
        connection.execute(CreateTable(table, if_not_exists=True))
        # `indexes` is a set, whose order differs from process to process.
        for index in sorted(table.indexes, key=lambda each: str(each.name)):
            connection.execute(CreateIndex(index, if_not_exists=True))
    if connection.dialect.name == "postgresql":
        for table in KNOWLEDGE_TABLES:
            secure_rows(connection, table.name)
