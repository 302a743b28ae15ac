"""The times that each memory's text names, so that a question about a time parses no memory."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    """All places are indexed anew when they are next opened, which fills the column."""
    # An older revision makes missing tables as they are now.
    found = sa.inspect(op.get_bind())
    if "times" not in {column["name"] for column in found.get_columns("memory_item")}:
        op.add_column("memory_item", sa.Column("times", sa.Text, nullable=True))
    op.execute("UPDATE memory_place SET analysis = 0")
