"""Approval requests, tools on users' allowlists, and the calls that sub-agents work for."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def _thread() -> sa.Column[int]:
    return sa.Column(
        "thread",
        sa.Integer,
        sa.ForeignKey("thread.key", ondelete="CASCADE"),
        primary_key=True,
        autoincrement=False,
    )


def _texts(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text, nullable=False) for name in names]


def _time(name: str, *, nullable: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, nullable=nullable)


def upgrade() -> None:
    op.create_table(
        "thread_parent",
        _thread(),
        sa.Column("parent", sa.Integer, sa.ForeignKey("thread.key", ondelete="CASCADE"), nullable=False),
        *_texts("run_id"),
        sa.Column("place", sa.Integer, nullable=False),
        *_texts("agent"),
        _time("created_ms"),
    )
    op.create_index("ix_thread_parent_parent", "thread_parent", ["parent"])
    op.create_table(
        "pending_approval",
        _thread(),
        sa.Column("id", sa.Text, primary_key=True),
        *_texts("run_id", "place", "digest"),
        _time("created_ms"),
        _time("expires_ms", nullable=True),
        *_texts("request"),
        sa.Column("verdict", sa.Text, nullable=True),
        _time("decided_ms", nullable=True),
        sa.Column("decision", sa.Text, nullable=True),
    )
    op.create_table(
        "allowlist",
        sa.Column("user", sa.Text, primary_key=True),
        sa.Column("tool", sa.Text, primary_key=True),
        _time("created_ms"),
    )
