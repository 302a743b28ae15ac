"""An index of the turns that wait for a decision, which each process of a service searches again and again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"


def upgrade() -> None:
    waiting = sa.text("state = 'waiting'")
    op.create_index("ix_turn_waiting", "turn", ["thread"], sqlite_where=waiting, postgresql_where=waiting)
