"""Sessions that can be rolled back, archived and restored: rollbacks, snapshots, archives, regular tasks."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def _thread() -> sa.Column[int]:
    return sa.Column(
        "thread",
        sa.Integer,
        sa.ForeignKey("thread.key", ondelete="CASCADE"),
        primary_key=True,
        autoincrement=False,
    )


def _number() -> sa.Column[int]:
    return sa.Column("number", sa.Integer, primary_key=True, autoincrement=False)


def _wholes(*names: str) -> list[sa.Column[int]]:
    return [sa.Column(name, sa.Integer, nullable=False) for name in names]


def _texts(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text, nullable=False) for name in names]


def _time(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, nullable=False)


def upgrade() -> None:
    op.create_table(
        "thread_rollback",
        _thread(),
        _number(),
        *_wholes("kept_seq", "last_seq", "edits", "steps"),
        _time("created_ms"),
    )
    op.create_table(
        "session_state_snapshot",
        _thread(),
        _number(),
        *_wholes("at_seq", "edits"),
        *_texts("run_id", "reason"),
        _time("created_ms"),
    )
    op.create_table(
        "checkpoint_archive",
        _thread(),
        _time("archived_ms"),
        *_wholes("messages", "edits", "steps", "texts"),
        *_texts("digest"),
        sa.Column("rows", sa.LargeBinary, nullable=False),
    )
    op.create_table("upkeep", sa.Column("name", sa.Text, primary_key=True), _time("taken_ms"))
