"""A protocol's name for the conversation that ends with a turn."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    op.add_column("turn", sa.Column("mark", sa.Text))
    op.create_index("ix_turn_mark", "turn", ["mark"])
