"""The text analysis that each place's words are indexed by, and an index that finds a turn of a conversation."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    # An older revision makes missing tables as they are now.
    found = sa.inspect(op.get_bind())
    if "analysis" not in {column["name"] for column in found.get_columns("memory_place")}:
        op.add_column("memory_place", sa.Column("analysis", sa.Integer, nullable=False, server_default="0"))
    if "memory_item_source" not in {index["name"] for index in found.get_indexes("memory_item")}:
        op.create_index("memory_item_source", "memory_item", ["place", "source_id"])
