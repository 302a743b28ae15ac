"""The tables of long-term memory, for SQLite and PostgreSQL alike. Times are UTC, in milliseconds since 1970.

``create_memory_tables`` makes the missing tables and the lexical index. On SQLite that is an FTS5 table over the column
``words`` of ``memory_item``, kept up to date by triggers; on PostgreSQL the column is a ``tsvector`` with a GIN index.
"""

from __future__ import annotations

import sqlite3
from typing import Any, Final

from sqlalchemy import BigInteger, Boolean, Column, Connection, Float, Index, Integer, Table, Text
from sqlalchemy.dialects.postgresql import TSVECTOR
from sqlalchemy.schema import CreateIndex, CreateTable
from sqlmodel import Field, SQLModel

from zeus_runtime.store.row_security import SECURED, secure_rows

_KEY = BigInteger().with_variant(Integer(), "sqlite")
"""SQLite increments a key by itself only if its type is INTEGER, which has eight bytes there anyway."""

_WORDS = Text().with_variant(TSVECTOR(), "postgresql")


def _key() -> Any:
    return Field(default=None, sa_column=Column(_KEY, primary_key=True, autoincrement=True))


def _number(*, nullable: bool = False) -> Any:
    return Field(default=None, sa_column=Column(BigInteger, nullable=nullable))


def _text(*, nullable: bool = False, unique: bool = False) -> Any:
    return Field(default=None, sa_column=Column(Text, nullable=nullable, unique=unique))


class MemoryPlaceRow(SQLModel, table=True):
    """A user, project or session that has memories. ``changes`` counts the changes of its items.

    ``analysis`` is the text analysis by which their words are indexed (``memory.retrieval.analysis.ANALYSIS``).

    A transaction that changes an item of a place updates this row first, so that two of them run one after the other.
    """

    __tablename__ = "memory_place"
    __table_args__ = (Index("memory_place_of", "scope", "scope_id", unique=True),)

    key: int | None = _key()
    scope: str = _text()
    scope_id: str = _text()
    changes: int = _number()
    analysis: int = Field(default=0, sa_column=Column(Integer, nullable=False, server_default="0"))


class MemoryItemRow(SQLModel, table=True):
    """One memory in its current version. ``changed`` is its place's ``changes`` when it last changed.

    ``digest`` is equal for texts that differ only in case, spacing and closing punctuation. ``words`` is the lexical
    index's form of the text, empty for a text that is never searched, and ``word_count`` is the number of those words.
    ``settled`` is 1 if a model or a person decided which memories it replaces, so that no rule decides it later.
    """

    __tablename__ = "memory_item"
    __table_args__ = (
        Index("memory_item_changed", "place", "changed"),
        Index("memory_item_digest", "digest"),
        Index("memory_item_listed", "place", "status", "updated_ms"),
        Index("memory_item_embedded", "embedding_model", "embedding_dimension", "key"),
        Index("memory_item_superseded", "superseded_by"),
        Index("memory_item_source", "place", "source_id"),
        {"sqlite_autoincrement": True},
    )

    key: int | None = _key()
    id: str = _text(unique=True)
    place: int = _number()
    changed: int = _number()
    scope: str = _text()
    scope_id: str = _text()
    content: str = _text()
    digest: str = _text()
    words: str = Field(sa_column=Column(_WORDS, nullable=False))
    word_count: int = Field(sa_column=Column(Integer, nullable=False))
    memory_type: str = _text()
    created_by: str = _text()
    source: str = _text()
    source_id: str | None = _text(nullable=True)
    confidence: float = Field(sa_column=Column(Float(53), nullable=False))
    visibility: str = _text()
    status: str = _text()
    trust: str = _text()
    subject: str | None = _text(nullable=True)
    valid_from_ms: int | None = _number(nullable=True)
    valid_until_ms: int | None = _number(nullable=True)
    superseded_by: str | None = _text(nullable=True)
    embedding_model: str | None = _text(nullable=True)
    embedding_dimension: int | None = Field(default=None, sa_column=Column(Integer, nullable=True))
    settled: int = Field(default=0, sa_column=Column(Integer, nullable=False, server_default="0"))
    version: int = Field(sa_column=Column(Integer, nullable=False))
    created_ms: int = _number()
    updated_ms: int = _number()
    last_used_ms: int | None = _number(nullable=True)


class MemoryLinkRow(SQLModel, table=True):
    """Two memories that are near each other, and both were kept."""

    __tablename__ = "memory_link"
    __table_args__ = (Index("memory_link_other", "other"),)

    item: str = Field(sa_column=Column(Text, primary_key=True))
    other: str = Field(sa_column=Column(Text, primary_key=True))


class MemoryGoneRow(SQLModel, table=True):
    """A removed item, for processes that hold a copy of the place in memory; the last few thousand per place."""

    __tablename__ = "memory_gone"

    place: int = Field(sa_column=Column(_KEY, primary_key=True, autoincrement=False))
    changed: int = Field(sa_column=Column(_KEY, primary_key=True, autoincrement=False))
    item: int = Field(sa_column=Column(_KEY, primary_key=True, autoincrement=False))


class MemoryHistoryRow(SQLModel, table=True):
    """An item's changes, in order; never changed, except that a delete blanks the contents of all its versions."""

    __tablename__ = "memory_history"
    __table_args__ = (Index("memory_history_of", "item", "key"),)

    key: int | None = _key()
    item: str = _text()
    version: int = Field(sa_column=Column(Integer, nullable=False))
    action: str = _text()
    by: str = _text()
    at_ms: int = _number()
    content: str = _text()
    valid_from_ms: int | None = _number(nullable=True)
    valid_until_ms: int | None = _number(nullable=True)


class ExtractionRow(SQLModel, table=True):
    """One memory that the agent saved on its own initiative. The limit counts the answers that saved some.

    ``answer`` is the model's answer that saved it; None for a save that belongs to no answer.
    """

    __tablename__ = "extraction_log"
    __table_args__ = (Index("extraction_log_of", "session", "at_ms"),)

    key: int | None = _key()
    session: str = _text()
    at_ms: int = _number()
    answer: str | None = _text(nullable=True)


class UserProfileRow(SQLModel, table=True):
    """The facts about a user (SPEC section 8); lists are JSON."""

    __tablename__ = "user_profile"

    user_id: str = Field(sa_column=Column(Text, primary_key=True))
    username: str = _text()
    background: str = _text()
    profession: str = _text()
    communication_style: str = _text()
    response_format: str = _text()
    language_preference: str = _text()
    characteristics: str = _text()
    content: str = _text()
    expertise_areas: str = _text()
    programming_languages: str = _text()
    frequently_used_tools: str = _text()
    lines: str = _text()
    """JSON: the aggregated facts, each line with the ids of its items."""
    version: int = Field(sa_column=Column(Integer, nullable=False))
    updated_ms: int = _number()


class ProjectRow(SQLModel, table=True):
    """A project."""

    __tablename__ = "project"

    id: str = Field(sa_column=Column(Text, primary_key=True))
    name: str = _text()
    created_ms: int = _number()


class ProjectMemberRow(SQLModel, table=True):
    """The members of a project, and their roles."""

    __tablename__ = "project_member"
    __table_args__ = (Index("project_member_user", "user_id"),)

    project_id: str = Field(sa_column=Column(Text, primary_key=True))
    user_id: str = Field(sa_column=Column(Text, primary_key=True))
    role: str = _text()
    since_ms: int = _number()


class ProjectProfileRow(SQLModel, table=True):
    """The facts about a project (SPEC section 8); lists are JSON."""

    __tablename__ = "project_profile"

    project_id: str = Field(sa_column=Column(Text, primary_key=True))
    project_goal: str = _text()
    tech_stack: str = _text()
    constraints: str = _text()
    key_decisions: str = _text()
    team_conventions: str = _text()
    current_phase: str = _text()
    lines: str = _text()
    version: int = Field(sa_column=Column(Integer, nullable=False))
    updated_ms: int = _number()


class UserSettingRow(SQLModel, table=True):
    """A user's choice, such as the embedding model; the value is JSON."""

    __tablename__ = "user_setting"

    user_id: str = Field(sa_column=Column(Text, primary_key=True))
    name: str = Field(sa_column=Column(Text, primary_key=True))
    value: str = _text()
    secret: bool = Field(default=False, sa_column=Column(Boolean, nullable=False))
    updated_ms: int = _number()


def _table(row: type[SQLModel]) -> Table:
    table: Table = row.__table__  # type: ignore[attr-defined]
    return table


PLACE: Final = _table(MemoryPlaceRow)
ITEM: Final = _table(MemoryItemRow)
LINK: Final = _table(MemoryLinkRow)
GONE: Final = _table(MemoryGoneRow)
HISTORY: Final = _table(MemoryHistoryRow)
EXTRACTION: Final = _table(ExtractionRow)
USER_PROFILE: Final = _table(UserProfileRow)
PROJECT: Final = _table(ProjectRow)
PROJECT_MEMBER: Final = _table(ProjectMemberRow)
PROJECT_PROFILE: Final = _table(ProjectProfileRow)
USER_SETTING: Final = _table(UserSettingRow)

MEMORY_TABLES: Final = (
    PLACE,
    ITEM,
    LINK,
    GONE,
    HISTORY,
    EXTRACTION,
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
