"""The backtests that a service was asked for."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from zeus_runtime.store.row_security import secure_sessions

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    op.create_table(
        "backtest",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("idempotency_key", sa.Text, unique=True),
        sa.Column("owner", sa.Text),
        sa.Column("owner_project", sa.Text),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("problem", sa.Text, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_backtest_owner", "backtest", ["owner"])
    op.create_table(
        "backtest_replay",
        sa.Column("backtest", sa.Text, sa.ForeignKey("backtest.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column(
            "thread",
            sa.Integer,
            sa.ForeignKey("thread.key", ondelete="CASCADE"),
            primary_key=True,
            autoincrement=False,
        ),
        sa.Column("policy", sa.Text, nullable=False),
        sa.Column("outcome", sa.LargeBinary),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_backtest_replay_thread", "backtest_replay", ["thread"])
    secure_sessions(op.get_bind())
