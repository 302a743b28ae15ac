"""The setting of a tool that an entry of an allowlist is for."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"

_KEY = ("user", "tool", "setting")


def upgrade() -> None:
    """Entries from before get an empty setting: they are for every tool of their name."""
    if op.get_context().dialect.name != "sqlite":
        # Changed in place, so that the rights on the table stay.
        op.add_column("allowlist", sa.Column("setting", sa.Text, nullable=False, server_default=""))
        op.alter_column("allowlist", "setting", server_default=None)
        op.drop_constraint("allowlist_pkey", "allowlist")
        op.create_primary_key("allowlist_pkey", "allowlist", [*_KEY])
        return
    op.rename_table("allowlist", "allowlist_before")
    op.create_table(
        "allowlist",
        *(sa.Column(name, sa.Text, primary_key=True) for name in _KEY),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
    )
    op.execute("INSERT INTO allowlist SELECT \"user\", tool, '', created_ms FROM allowlist_before")
    op.drop_table("allowlist_before")
