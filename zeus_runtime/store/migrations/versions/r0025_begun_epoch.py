"""The epoch in which an approved call began to run."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"


def upgrade() -> None:
    op.add_column("pending_approval", sa.Column("begun_epoch", sa.BigInteger, nullable=True))
