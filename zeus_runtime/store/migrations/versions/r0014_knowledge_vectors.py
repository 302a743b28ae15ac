"""Knowledge bases: their collections in the vector store, and the digests of their vectors. The database's identity."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    op.create_table(
        "database_identity",
        sa.Column("key", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("name", sa.Text, nullable=False),
    )
    empty = sa.text("''")
    op.add_column("knowledge_base", sa.Column("collection", sa.Text, nullable=False, server_default=empty))
    op.add_column(
        "knowledge_part", sa.Column("digests", sa.LargeBinary, nullable=False, server_default=empty)
    )
