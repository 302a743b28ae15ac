"""Links between memories, who decided what a memory replaces, the validity in histories, and the answers that saved."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"

_LINKED = "EXISTS (SELECT FROM memory_item AS of WHERE of.id IN (memory_link.item, memory_link.other))"


def upgrade() -> None:
    op.create_table(
        "memory_link",
        sa.Column("item", sa.Text, primary_key=True),
        sa.Column("other", sa.Text, primary_key=True),
    )
    op.create_index("memory_link_other", "memory_link", ["other"])
    op.add_column("memory_item", sa.Column("settled", sa.Integer, nullable=False, server_default="0"))
    for name in ("valid_from_ms", "valid_until_ms"):
        op.add_column("memory_history", sa.Column(name, sa.BigInteger, nullable=True))
    op.add_column("extraction_log", sa.Column("answer", sa.Text, nullable=True))
    if op.get_context().dialect.name != "sqlite":
        _secure_links()


def _secure_links() -> None:
    allowed = f"((SELECT current_setting('zeus.upkeep', true)) = 'on' OR {_LINKED})"
    clauses = {
        "SELECT": f"USING {allowed}",
        "DELETE": f"USING {allowed}",
        "INSERT": f"WITH CHECK {allowed}",
        "UPDATE": f"USING {allowed} WITH CHECK {allowed}",
    }
    op.execute("ALTER TABLE memory_link ENABLE ROW LEVEL SECURITY")
    for command, clause in clauses.items():
        op.execute(f"CREATE POLICY zeus_{command.lower()} ON memory_link FOR {command} {clause}")
