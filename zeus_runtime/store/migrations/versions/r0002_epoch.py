"""The epoch of a session: each claim raises it, and the former holder can no longer write."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("thread", sa.Column("epoch", sa.Integer, nullable=False, server_default="0"))
