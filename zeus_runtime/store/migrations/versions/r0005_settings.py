"""Row-level security on users' settings (PostgreSQL; nothing elsewhere)."""

from __future__ import annotations

from alembic import op

revision = "0005"
down_revision = "0004"

_ALLOWED = (
    "((SELECT current_setting('zeus.upkeep', true)) = 'on'"
    " OR user_id = (SELECT current_setting('zeus.user_id', true)))"
)


def upgrade() -> None:
    if op.get_context().dialect.name == "sqlite":
        return
    op.execute("ALTER TABLE user_setting ENABLE ROW LEVEL SECURITY")
    for command, clause in (
        ("SELECT", f"USING {_ALLOWED}"),
        ("INSERT", f"WITH CHECK {_ALLOWED}"),
        ("UPDATE", f"USING {_ALLOWED} WITH CHECK {_ALLOWED}"),
        ("DELETE", f"USING {_ALLOWED}"),
    ):
        op.execute(f"CREATE POLICY zeus_{command.lower()} ON user_setting FOR {command} {clause}")
