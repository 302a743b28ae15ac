"""What a service stores: the owners of sessions, the events of runs, the turns that it was asked for."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    op.add_column("thread", sa.Column("owner", sa.Text))
    op.add_column("thread", sa.Column("owner_project", sa.Text))
    op.create_index("ix_thread_owner", "thread", ["owner"])
    op.create_table(
        "run_event",
        sa.Column(
            "thread",
            sa.Integer,
            sa.ForeignKey("thread.key", ondelete="CASCADE"),
            primary_key=True,
            autoincrement=False,
        ),
        sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("session", sa.Text, nullable=False),
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("kind", sa.Integer, nullable=False),
        sa.Column("with_message", sa.Integer, nullable=False),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("payload", sa.Text, nullable=False),
    )
    op.create_table(
        "turn",
        sa.Column(
            "thread",
            sa.Integer,
            sa.ForeignKey("thread.key", ondelete="CASCADE"),
            primary_key=True,
            autoincrement=False,
        ),
        sa.Column("run_id", sa.Text, primary_key=True),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("request", sa.Text, nullable=False),
        sa.Column("idempotency_key", sa.Text),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("started_ms", sa.BigInteger),
        sa.Column("ended_ms", sa.BigInteger),
        sa.Column("ending", sa.Text),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_turn_run_id", "turn", ["run_id"])
