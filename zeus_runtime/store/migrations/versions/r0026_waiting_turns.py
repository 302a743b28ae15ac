"""An index of the turns that wait for a decision, which each process of a service searches again and again."""

from __future__ import annotations

from alembic import op

revision = "0026"
down_revision = "0025"


def upgrade() -> None:
    op.execute("CREATE INDEX ix_turn_waiting ON turn (thread) WHERE state = 'waiting'")
