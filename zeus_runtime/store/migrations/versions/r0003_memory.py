"""Long-term memory: places, items with their words, history, extractions, profiles, projects and users' settings.

This revision must not change, even when the tables and the rules of row-level security do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import TSVECTOR

revision = "0003"
down_revision = "0002"

_KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_WORDS = sa.Text().with_variant(TSVECTOR(), "postgresql")

_FTS = (
    """CREATE VIRTUAL TABLE memory_words USING fts5(
      words, content='memory_item', content_rowid='key', tokenize="ascii tokenchars '_'")""",
    "CREATE VIRTUAL TABLE memory_word USING fts5vocab('memory_words', 'instance')",
    """CREATE TRIGGER memory_words_insert AFTER INSERT ON memory_item BEGIN
      INSERT INTO memory_words(rowid, words) VALUES (new.key, new.words); END""",
    """CREATE TRIGGER memory_words_delete AFTER DELETE ON memory_item BEGIN
      INSERT INTO memory_words(memory_words, rowid, words) VALUES ('delete', old.key, old.words); END""",
    """CREATE TRIGGER memory_words_update AFTER UPDATE OF words ON memory_item
      WHEN new.words <> old.words BEGIN
      INSERT INTO memory_words(memory_words, rowid, words) VALUES ('delete', old.key, old.words);
      INSERT INTO memory_words(rowid, words) VALUES (new.key, new.words); END""",
)

_USER = "(SELECT current_setting('zeus.user_id', true))"
_PROJECT = "(SELECT current_setting('zeus.project_id', true))"
_ROLE = "(SELECT current_setting('zeus.role', true))"
_HEAD = f"{_ROLE} IN ('owner', 'admin')"
_WRITER = f"{_ROLE} IN ('owner', 'admin', 'editor')"
_MEMBER = f"{_ROLE} IN ('owner', 'admin', 'editor', 'viewer')"
_OWN = f"created_by = {_USER} AND {_USER} <> ''"
_HERE = f"scope = 'project' AND scope_id = {_PROJECT}"
_CHANGED = f"({_OWN}) AND (scope <> 'project' OR ({_HERE} AND {_WRITER}))"
_TOLD = f"by = {_USER} OR EXISTS (SELECT FROM memory_item WHERE memory_item.id = memory_history.item)"
_OF_USER = f"user_id = {_USER}"
_OF_WRITERS = f"project_id = {_PROJECT} AND {_WRITER}"
_ROWS = {
    "memory_item": {
        "SELECT": f"({_OWN}) OR ({_HERE} AND ({_HEAD} OR ({_MEMBER} AND visibility <> 'owner_only')))",
        "INSERT": f"({_OWN}) AND ((scope = 'user' AND scope_id = {_USER}) OR scope = 'session'"
        f" OR ({_HERE} AND {_WRITER}))",
        "UPDATE": f"({_CHANGED}) OR ({_HERE} AND {_HEAD} AND visibility <> 'owner_only')",
        "DELETE": f"({_CHANGED}) OR ({_HERE} AND {_HEAD})",
    },
    "memory_history": {"SELECT": _TOLD, "INSERT": f"by = {_USER}", "UPDATE": _TOLD},
    "user_profile": {"SELECT": _OF_USER, "INSERT": _OF_USER, "UPDATE": _OF_USER, "DELETE": _OF_USER},
    "project_profile": {
        "SELECT": f"project_id = {_PROJECT} AND {_MEMBER}",
        "INSERT": _OF_WRITERS,
        "UPDATE": _OF_WRITERS,
        "DELETE": _OF_WRITERS,
    },
}


def _key() -> sa.Column[int]:
    return sa.Column("key", _KEY, primary_key=True, autoincrement=True)


def _text(*names: str, **more: Any) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text, **{"nullable": False, **more}) for name in names]


def _times(*names: str, nullable: bool = False) -> list[sa.Column[int]]:
    return [sa.Column(name, sa.BigInteger, nullable=nullable) for name in names]


def _whole(name: str, *, nullable: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.Integer, nullable=nullable)


def _table(name: str, *columns: sa.Column[Any], **more: Any) -> None:
    op.create_table(name, *columns, **more)


def _index(name: str, table: str, *columns: str, unique: bool = False) -> None:
    op.create_index(name, table, list(columns), unique=unique)


def upgrade() -> None:
    _table("memory_place", _key(), *_text("scope", "scope_id"), *_times("changes"))
    _index("memory_place_of", "memory_place", "scope", "scope_id", unique=True)
    _table(
        "memory_item",
        _key(),
        *_text("id", unique=True),
        *_times("place", "changed"),
        *_text("scope", "scope_id", "content", "digest"),
        sa.Column("words", _WORDS, nullable=False),
        _whole("word_count"),
        *_text("memory_type", "created_by", "source"),
        *_text("source_id", nullable=True),
        sa.Column("confidence", sa.Float(53), nullable=False),
        *_text("visibility", "status", "trust"),
        *_text("subject", nullable=True),
        *_times("valid_from_ms", "valid_until_ms", nullable=True),
        *_text("superseded_by", "embedding_model", nullable=True),
        _whole("embedding_dimension", nullable=True),
        _whole("version"),
        *_times("created_ms", "updated_ms"),
        *_times("last_used_ms", nullable=True),
        sqlite_autoincrement=True,
    )
    _index("memory_item_changed", "memory_item", "place", "changed")
    _index("memory_item_digest", "memory_item", "digest")
    _index("memory_item_listed", "memory_item", "place", "status", "updated_ms")
    _index("memory_item_embedded", "memory_item", "embedding_model", "embedding_dimension", "key")
    _index("memory_item_superseded", "memory_item", "superseded_by")
    _table(
        "memory_gone",
        *(
            sa.Column(name, _KEY, primary_key=True, autoincrement=False)
            for name in ("place", "changed", "item")
        ),
    )
    _table(
        "memory_history",
        _key(),
        *_text("item"),
        _whole("version"),
        *_text("action", "by"),
        *_times("at_ms"),
        *_text("content"),
    )
    _index("memory_history_of", "memory_history", "item", "key")
    _table("extraction_log", _key(), *_text("session"), *_times("at_ms"))
    _index("extraction_log_of", "extraction_log", "session", "at_ms")
    _table(
        "user_profile",
        sa.Column("user_id", sa.Text, primary_key=True),
        *_text("username", "background", "profession", "communication_style", "response_format"),
        *_text("language_preference", "characteristics", "content", "expertise_areas"),
        *_text("programming_languages", "frequently_used_tools", "lines"),
        _whole("version"),
        *_times("updated_ms"),
    )
    _table("project", sa.Column("id", sa.Text, primary_key=True), *_text("name"), *_times("created_ms"))
    _table(
        "project_member",
        sa.Column("project_id", sa.Text, primary_key=True),
        sa.Column("user_id", sa.Text, primary_key=True),
        *_text("role"),
        *_times("since_ms"),
    )
    _index("project_member_user", "project_member", "user_id")
    _table(
        "project_profile",
        sa.Column("project_id", sa.Text, primary_key=True),
        *_text("project_goal", "tech_stack", "constraints", "key_decisions", "team_conventions"),
        *_text("current_phase", "lines"),
        _whole("version"),
        *_times("updated_ms"),
    )
    _table(
        "user_setting",
        sa.Column("user_id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        *_text("value"),
        sa.Column("secret", sa.Boolean, nullable=False),
        *_times("updated_ms"),
    )
    if op.get_context().dialect.name == "sqlite":
        _index_words_on_sqlite()
    else:
        op.execute("CREATE INDEX memory_item_words ON memory_item USING gin (words)")
        for table, rules in _ROWS.items():
            _secure_rows(table, rules)


def _secure_rows(table: str, rules: Mapping[str, str]) -> None:
    op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
    for command, rule in rules.items():
        allowed = f"((SELECT current_setting('zeus.upkeep', true)) = 'on' OR {rule})"
        clauses = {"INSERT": f"WITH CHECK {allowed}", "UPDATE": f"USING {allowed} WITH CHECK {allowed}"}
        clause = clauses.get(command, f"USING {allowed}")
        op.execute(f"CREATE POLICY zeus_{command.lower()} ON {table} FOR {command} {clause}")


def _index_words_on_sqlite() -> None:
    import sqlite3

    for statement in _FTS:
        op.execute(statement)
    if sqlite3.sqlite_version_info >= (3, 42):
        op.execute("INSERT INTO memory_words(memory_words, rank) VALUES ('secure-delete', 1)")
