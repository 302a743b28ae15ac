"""How far sessions were searched for facts, and the batches of memory changes that a model proposed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"

_USER = "user_id = (SELECT current_setting('zeus.user_id', true))"
_SEEN = {
    "memory_cursor": _USER,
    "memory_batch": _USER,
    "memory_batch_step": "EXISTS (SELECT FROM memory_batch AS of WHERE of.id = memory_batch_step.batch)",
}


def upgrade() -> None:
    op.create_table(
        "memory_cursor",
        sa.Column("session", sa.Text, primary_key=True),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("user_id", "agent")),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("due", sa.Integer, nullable=False),
    )
    op.create_index("memory_cursor_due", "memory_cursor", ["user_id", "due"])
    op.create_table(
        "memory_batch",
        sa.Column("id", sa.Text, primary_key=True),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("user_id", "kind")),
        sa.Column("session", sa.Text, nullable=True),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("first_seq", "last_seq")),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("state", "proposals", "model")),
        *(sa.Column(name, sa.Integer, nullable=False) for name in ("input_tokens", "output_tokens")),
        sa.Column("cost_usd", sa.Float(53), nullable=True),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
    )
    op.create_index("memory_batch_of", "memory_batch", ["user_id", "created_ms"])
    op.create_table(
        "memory_batch_step",
        sa.Column("batch", sa.Text, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("item", sa.Text, nullable=True),
        sa.Column("replaced", sa.Text, nullable=False),
    )
    if op.get_context().dialect.name != "sqlite":
        for table, seen in _SEEN.items():
            _secure(table, f"((SELECT current_setting('zeus.upkeep', true)) = 'on' OR {seen})")


def _secure(table: str, allowed: str) -> None:
    clauses = {
        "SELECT": f"USING {allowed}",
        "DELETE": f"USING {allowed}",
        "INSERT": f"WITH CHECK {allowed}",
        "UPDATE": f"USING {allowed} WITH CHECK {allowed}",
    }
    op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
    for command, clause in clauses.items():
        op.execute(f"CREATE POLICY zeus_{command.lower()} ON {table} FOR {command} {clause}")
