"""The digest of the change that was shown with an approval request."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    op.add_column("pending_approval", sa.Column("shown", sa.Text, nullable=True))
