"""The keys of a service and its audit log."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from zeus_runtime.store.service_audit import append_only

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    op.create_table(
        "service_key",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("user_id", sa.Text),
        sa.Column("project_id", sa.Text),
        sa.Column("role", sa.Text),
        sa.Column("scopes", sa.Text, nullable=False),
        sa.Column("agents", sa.Text),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("expires_ms", sa.BigInteger),
        sa.Column("revoked_ms", sa.BigInteger),
        sa.Column("last_used_ms", sa.BigInteger),
        sa.Column("rotated_from", sa.Text),
    )
    op.create_table(
        "audit_entry",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.Column("user_id", sa.Text),
        sa.Column("caller", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("agent", sa.Text),
        sa.Column("session", sa.Text),
        sa.Column("subject", sa.Text),
        sa.Column("decision", sa.Text),
        sa.Column("status", sa.Integer, nullable=False),
        sa.Column("outcome", sa.Text, nullable=False),
    )
    op.create_index("ix_audit_entry_user_id", "audit_entry", ["user_id"])
    append_only(op.get_bind())
