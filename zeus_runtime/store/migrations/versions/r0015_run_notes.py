"""The notes of runs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    op.create_table(
        "run_note",
        sa.Column(
            "thread",
            sa.Integer,
            sa.ForeignKey("thread.key", ondelete="CASCADE"),
            primary_key=True,
            autoincrement=False,
        ),
        sa.Column("run_id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("value", sa.Text, nullable=False),
    )
