"""Sessions, their messages, the edits of the view, and the ledger.

Databases from before the first revision have these tables, or the first of them.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def _thread() -> sa.Column[int]:
    return sa.Column(
        "thread",
        sa.Integer,
        sa.ForeignKey("thread.key", ondelete="CASCADE"),
        primary_key=True,
        autoincrement=False,
    )


def _number(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.Integer, primary_key=True, autoincrement=False)


def upgrade() -> None:
    op.create_table(
        "thread",
        sa.Column("key", sa.Integer, primary_key=True),
        sa.Column("session", sa.String(64), nullable=False, unique=True),
        sa.Column("agent", sa.String, nullable=False),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("updated_ms", sa.BigInteger, nullable=False),
        sa.Column("title", sa.String, nullable=False),
        if_not_exists=True,
    )
    op.create_index("ix_thread_updated_ms", "thread", ["updated_ms"], if_not_exists=True)
    op.create_table(
        "message",
        _thread(),
        _number("seq"),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("payload", sa.Text, nullable=False),
        if_not_exists=True,
    )
    op.create_table(
        "context_edit",
        _thread(),
        _number("number"),
        sa.Column("at_seq", sa.Integer, nullable=False),
        sa.Column("payload", sa.Text, nullable=False),
        if_not_exists=True,
    )
    op.create_table(
        "context_step",
        _thread(),
        _number("number"),
        sa.Column("seq", sa.Integer, nullable=False),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("payload", sa.LargeBinary, nullable=False),
        if_not_exists=True,
    )
    op.create_table(
        "context_text",
        _thread(),
        sa.Column("digest", sa.Text, primary_key=True),
        sa.Column("text", sa.Text, nullable=False),
        if_not_exists=True,
    )
