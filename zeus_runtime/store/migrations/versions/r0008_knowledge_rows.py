"""Knowledge bases: row-level security, so that users see only their rows (PostgreSQL)."""

from __future__ import annotations

from alembic import op

revision = "0008"
down_revision = "0007"

_USER = "(SELECT current_setting('zeus.user_id', true))"
_ROLE = "(SELECT current_setting('zeus.role', true))"
_OWN = f"created_by = {_USER} AND {_USER} <> ''"
_HERE = "scope = 'project' AND scope_id = (SELECT current_setting('zeus.project_id', true))"
_HEAD = f"{_ROLE} IN ('owner', 'admin')"
_WRITER = f"{_ROLE} IN ('owner', 'admin', 'editor')"
_MEMBER = f"{_ROLE} IN ('owner', 'admin', 'editor', 'viewer')"
_MINE = f"(scope = 'user' AND scope_id = {_USER} AND {_USER} <> '')"
_CHANGED = f"{_MINE} OR ({_HERE} AND ({_HEAD} OR ({_ROLE} = 'editor' AND {_OWN})))"
_BASE = {
    "SELECT": f"{_MINE} OR ({_HERE} AND {_MEMBER})",
    "INSERT": f"({_OWN}) AND ((scope = 'user' AND scope_id = {_USER}) OR ({_HERE} AND {_WRITER}))",
    "UPDATE": _CHANGED,
    "DELETE": _CHANGED,
}
_PLACES = {
    "knowledge_source": "knowledge_base AS of WHERE of.key = knowledge_source.base",
    "knowledge_document": "knowledge_base AS of WHERE of.key = knowledge_document.base",
    "knowledge_chunk": "knowledge_document AS part JOIN knowledge_base AS of ON of.key = part.base"
    " WHERE part.key = knowledge_chunk.document",
}


def upgrade() -> None:
    if op.get_context().dialect.name == "sqlite":
        return
    _secure_rows("knowledge_base", _BASE)
    for table, place in _PLACES.items():
        changed = f"EXISTS (SELECT FROM {place} AND ({_CHANGED}))"
        rules = {"SELECT": f"EXISTS (SELECT FROM {place})"}
        _secure_rows(table, rules | dict.fromkeys(("INSERT", "UPDATE", "DELETE"), changed))


def _secure_rows(table: str, rules: dict[str, str]) -> None:
    op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
    for command, rule in rules.items():
        allowed = f"((SELECT current_setting('zeus.upkeep', true)) = 'on' OR {rule})"
        clauses = {"INSERT": f"WITH CHECK {allowed}", "UPDATE": f"USING {allowed} WITH CHECK {allowed}"}
        clause = clauses.get(command, f"USING {allowed}")
        op.execute(f"CREATE POLICY zeus_{command.lower()} ON {table} FOR {command} {clause}")
