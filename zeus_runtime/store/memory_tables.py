"""The tables of long-term memory, for SQLite and PostgreSQL alike. Times are UTC, in milliseconds since 1970.

``create_memory_tables`` makes the missing tables and the lexical index. On SQLite that is an FTS5 table over the column
``words`` of ``memory_item``, kept up to date by triggers; on PostgreSQL the column is a ``tsvector`` with a GIN index.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Dialect,
    Float,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    TypeDecorator,
)
from sqlalchemy.schema import CreateIndex, CreateTable
from sqlalchemy.types import TypeEngine

from zeus_runtime.store.row_security import SECURED, secure_rows

_METADATA: Final = MetaData()
_KEY: Final = BigInteger().with_variant(Integer(), "sqlite")
"""SQLite increments a key by itself only if its type is INTEGER, which has eight bytes there anyway."""


class _Words(TypeDecorator[str]):
    """Text; on PostgreSQL a ``tsvector``, whose dialect is imported only there."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[str]:
        if dialect.name != "postgresql":
            return dialect.type_descriptor(Text())
        from sqlalchemy.dialects.postgresql import TSVECTOR

        return dialect.type_descriptor(TSVECTOR())


def _key() -> Column[int]:
    return Column("key", _KEY, primary_key=True, autoincrement=True)


def _named(*names: str) -> list[Column[str]]:
    return [Column(name, Text, primary_key=True) for name in names]


def _texts(*names: str, nullable: bool = False) -> list[Column[str]]:
    return [Column(name, Text, nullable=nullable) for name in names]


def _wholes(*names: str, nullable: bool = False) -> list[Column[int]]:
    return [Column(name, Integer, nullable=nullable) for name in names]


def _longs(*names: str, nullable: bool = False) -> list[Column[int]]:
    return [Column(name, BigInteger, nullable=nullable) for name in names]


PLACE: Final = Table(
    "memory_place",
    _METADATA,
    _key(),
    *_texts("scope", "scope_id"),
    *_longs("changes"),
    Column("analysis", Integer, nullable=False, server_default="0"),
    Index("memory_place_of", "scope", "scope_id", unique=True),
)
"""A user, project or session that has memories. ``changes`` counts the changes of its items.

``analysis`` is the text analysis by which their words are indexed (``memory.retrieval.analysis.ANALYSIS``).

A transaction that changes an item of a place updates this row first, so that two of them run one after the other.
"""

ITEM: Final = Table(
    "memory_item",
    _METADATA,
    _key(),
    Column("id", Text, nullable=False, unique=True),
    *_longs("place", "changed"),
    *_texts("scope", "scope_id", "content", "digest"),
    Column("words", _Words, nullable=False),
    *_wholes("word_count"),
    *_texts("memory_type", "created_by", "source"),
    *_texts("source_id", nullable=True),
    Column("confidence", Float(53), nullable=False),
    *_texts("visibility", "status", "trust"),
    *_texts("subject", nullable=True),
    *_longs("valid_from_ms", "valid_until_ms", nullable=True),
    *_texts("superseded_by", "embedding_model", nullable=True),
    *_wholes("embedding_dimension", nullable=True),
    Column("settled", Integer, nullable=False, server_default="0"),
    *_wholes("version"),
    *_longs("created_ms", "updated_ms"),
    *_longs("last_used_ms", nullable=True),
    *_texts("times", nullable=True),
    Index("memory_item_changed", "place", "changed"),
    Index("memory_item_digest", "digest"),
    Index("memory_item_listed", "place", "status", "updated_ms"),
    Index("memory_item_embedded", "embedding_model", "embedding_dimension", "key"),
    Index("memory_item_superseded", "superseded_by"),
    Index("memory_item_source", "place", "source_id"),
    sqlite_autoincrement=True,
)
"""One memory in its current version. ``changed`` is its place's ``changes`` when it last changed.

``digest`` is equal for texts that differ only in case, spacing and closing punctuation. ``words`` is the lexical
index's form of the text, empty for a text that is never searched, and ``word_count`` is the number of those words.
``settled`` is 1 if a model or a person decided which memories it replaces, so that no rule decides it later.
``times`` has the periods that the text names (``memory.retrieval.named_times``), null where it is never searched.
"""

LINK: Final = Table("memory_link", _METADATA, *_named("item", "other"), Index("memory_link_other", "other"))
"""Two memories that are near each other, and both were kept."""

GONE: Final = Table(
    "memory_gone",
    _METADATA,
    *(Column(name, _KEY, primary_key=True, autoincrement=False) for name in ("place", "changed", "item")),
)
"""A removed item, for processes that hold a copy of the place in memory; the last few thousand per place."""

HISTORY: Final = Table(
    "memory_history",
    _METADATA,
    _key(),
    *_texts("item"),
    *_wholes("version"),
    *_texts("action", "by"),
    *_longs("at_ms"),
    *_texts("content"),
    *_longs("valid_from_ms", "valid_until_ms", nullable=True),
    Index("memory_history_of", "item", "key"),
)
"""An item's changes, in order; never changed, except that a delete blanks the contents of all its versions."""

EXTRACTION: Final = Table(
    "extraction_log",
    _METADATA,
    _key(),
    *_texts("session"),
    *_longs("at_ms"),
    *_texts("answer", nullable=True),
    Index("extraction_log_of", "session", "at_ms"),
)
"""One memory that the agent saved on its own initiative. The limit counts the answers that saved some.

``answer`` is the model's answer that saved it; null for a save that belongs to no answer.
"""

CURSOR: Final = Table(
    "memory_cursor",
    _METADATA,
    *_named("session"),
    *_texts("user_id", "agent"),
    *_longs("seq"),
    *_wholes("due"),
    Index("memory_cursor_due", "user_id", "due"),
)
"""How far the log of a session was searched for facts. ``due`` counts the runs that may have left new messages."""

BATCH: Final = Table(
    "memory_batch",
    _METADATA,
    *_named("id"),
    *_texts("user_id", "kind"),
    *_texts("session", nullable=True),
    *_longs("first_seq", "last_seq"),
    *_texts("state", "proposals", "model"),
    *_wholes("input_tokens", "output_tokens"),
    Column("cost_usd", Float(53), nullable=True),
    *_longs("created_ms"),
    Index("memory_batch_of", "user_id", "created_ms"),
)
"""The memory changes that one model answer proposed, and the price of that call.

``proposals`` is JSON while they are being saved; after that it is empty, so that no deleted text stays in it.
"""

BATCH_STEP: Final = Table(
    "memory_batch_step",
    _METADATA,
    Column("batch", Text, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    *_texts("outcome"),
    *_texts("item", nullable=True),
    *_texts("replaced"),
)
"""The effect of one proposal, written in the transaction that had it.

``item`` is the memory that it added. ``replaced`` is JSON: of each memory that gave way the id, the version since then
and the former end of its validity.
"""

USER_PROFILE: Final = Table(
    "user_profile",
    _METADATA,
    *_named("user_id"),
    *_texts("username", "background", "profession", "communication_style", "response_format"),
    *_texts("language_preference", "characteristics", "content", "expertise_areas", "programming_languages"),
    *_texts("frequently_used_tools", "lines"),
    *_wholes("version"),
    *_longs("updated_ms"),
)
"""The facts about a user (SPEC section 8); lists are JSON. ``lines`` has the aggregated facts, each line with the ids
of its items."""

PROJECT: Final = Table("project", _METADATA, *_named("id"), *_texts("name"), *_longs("created_ms"))
"""A project."""

PROJECT_MEMBER: Final = Table(
    "project_member",
    _METADATA,
    *_named("project_id", "user_id"),
    *_texts("role"),
    *_longs("since_ms"),
    Index("project_member_user", "user_id"),
)
"""The members of a project, and their roles."""

PROJECT_PROFILE: Final = Table(
    "project_profile",
    _METADATA,
    *_named("project_id"),
    *_texts(
        "project_goal", "tech_stack", "constraints", "key_decisions", "team_conventions", "current_phase"
    ),
    *_texts("lines"),
    *_wholes("version"),
    *_longs("updated_ms"),
)
"""The facts about a project (SPEC section 8); lists are JSON."""

USER_SETTING: Final = Table(
    "user_setting",
    _METADATA,
    *_named("user_id", "name"),
    *_texts("value"),
    Column("secret", Boolean, nullable=False),
    *_longs("updated_ms"),
)
"""A user's choice, such as the embedding model; the value is JSON."""

MEMORY_TABLES: Final = (
    PLACE,
    ITEM,
    LINK,
    GONE,
    HISTORY,
    EXTRACTION,
    CURSOR,
    BATCH,
    BATCH_STEP,
    USER_PROFILE,
    PROJECT,
    PROJECT_MEMBER,
    PROJECT_PROFILE,
    USER_SETTING,
)

_SQLITE: Final = (
    # `ascii` counts every non-ASCII character as part of a word, so words are split as by search_tokens.
    """CREATE VIRTUAL TABLE IF NOT EXISTS memory_words USING fts5(
      words, content='memory_item', content_rowid='key', tokenize="ascii tokenchars '_'")""",
    "CREATE VIRTUAL TABLE IF NOT EXISTS memory_word USING fts5vocab('memory_words', 'instance')",
    """CREATE TRIGGER IF NOT EXISTS memory_words_insert AFTER INSERT ON memory_item BEGIN
      INSERT INTO memory_words(rowid, words) VALUES (new.key, new.words); END""",
    # An FTS5 table with external content cannot look up the words of a row that is already gone or changed: it has to
    # be given the old ones.
    """CREATE TRIGGER IF NOT EXISTS memory_words_delete AFTER DELETE ON memory_item BEGIN
      INSERT INTO memory_words(memory_words, rowid, words) VALUES ('delete', old.key, old.words); END""",
    """CREATE TRIGGER IF NOT EXISTS memory_words_update AFTER UPDATE OF words ON memory_item
      WHEN new.words <> old.words BEGIN
      INSERT INTO memory_words(memory_words, rowid, words) VALUES ('delete', old.key, old.words);
      INSERT INTO memory_words(rowid, words) VALUES (new.key, new.words); END""",
)
_POSTGRES: Final = ("CREATE INDEX IF NOT EXISTS memory_item_words ON memory_item USING gin (words)",)


def create_memory_tables(connection: Connection) -> None:
    """Make the missing tables, indexes and triggers, in the transaction of ``connection``."""
    for table in MEMORY_TABLES:
        connection.execute(CreateTable(table, if_not_exists=True))
        # `indexes` is a set, whose order differs from process to process.
        for index in sorted(table.indexes, key=lambda each: str(each.name)):
            connection.execute(CreateIndex(index, if_not_exists=True))
    if connection.dialect.name != "sqlite":
        for statement in _POSTGRES:
            connection.exec_driver_sql(statement)
        for table in MEMORY_TABLES:
            if table.name in SECURED:
                secure_rows(connection, table.name)
        return
    for statement in _SQLITE:
        connection.exec_driver_sql(statement)
    if secures_deletes():
        connection.exec_driver_sql("INSERT INTO memory_words(memory_words, rank) VALUES ('secure-delete', 1)")


def secures_deletes() -> bool:
    """Whether this SQLite's FTS5 can remove a word from its index at once; older ones keep it until a merge."""
    return sqlite3.sqlite_version_info >= (3, 42)
