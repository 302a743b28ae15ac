"""A rejection is found by its place and its stored arguments, so no digest of the call is stored."""

from __future__ import annotations

from alembic import op

revision = "0028"
down_revision = "0027"


def upgrade() -> None:
    """The stored request has the arguments already."""
    op.drop_column("pending_approval", "call_digest")
