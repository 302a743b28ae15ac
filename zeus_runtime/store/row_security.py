"""Row-level security on PostgreSQL: a second barrier behind the conditions in all queries of memory and knowledge.

Each transaction names its user (``act_for``), and the server shows and accepts rows accordingly, whatever the query
says. A transaction that names no user sees nothing. The tables' owner and superusers are exempt, so agents have to use
another role (docs/how-to/deployment.md). This catches a forgotten condition; a client that can send any SQL can also
claim to be another user.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from zeus_runtime.store.compiled_statements import server_driver

if TYPE_CHECKING:
    from sqlalchemy import Connection

# As a subquery, a setting is read once and not for every row.
_EVERYTHING: Final = "(SELECT current_setting('zeus.upkeep', true)) = 'on'"
_USER: Final = "(SELECT current_setting('zeus.user_id', true))"
_PROJECT: Final = "(SELECT current_setting('zeus.project_id', true))"
_ROLE: Final = "(SELECT current_setting('zeus.role', true))"
_HEAD: Final = f"{_ROLE} IN ('owner', 'admin')"
_WRITER: Final = f"{_ROLE} IN ('owner', 'admin', 'editor')"
_MEMBER: Final = f"{_ROLE} IN ('owner', 'admin', 'editor', 'viewer')"
_OWN: Final = f"created_by = {_USER} AND {_USER} <> ''"
_HERE: Final = f"scope = 'project' AND scope_id = {_PROJECT}"

_SEEN: Final = f"({_OWN}) OR ({_HERE} AND ({_HEAD} OR ({_MEMBER} AND visibility <> 'owner_only')))"
_MADE: Final = (
    f"({_OWN}) AND ((scope = 'user' AND scope_id = {_USER}) OR scope = 'session' OR ({_HERE} AND {_WRITER}))"
)
_OWN_TO_CHANGE: Final = f"({_OWN}) AND (scope <> 'project' OR ({_HERE} AND {_WRITER}))"
_EDITED: Final = f"({_OWN_TO_CHANGE}) OR ({_HERE} AND {_HEAD} AND visibility <> 'owner_only')"
_REMOVED: Final = f"({_OWN_TO_CHANGE}) OR ({_HERE} AND {_HEAD})"
_TOLD: Final = f"by = {_USER} OR EXISTS (SELECT FROM memory_item WHERE memory_item.id = memory_history.item)"
_LINKED: Final = "EXISTS (SELECT FROM memory_item AS of WHERE of.id IN (memory_link.item, memory_link.other))"
_OF_USER: Final = f"user_id = {_USER}"
_OF_BATCH: Final = "EXISTS (SELECT FROM memory_batch AS of WHERE of.id = memory_batch_step.batch)"
_OF_PROJECT: Final = f"project_id = {_PROJECT}"

_BASE_SEEN: Final = f"(scope = 'user' AND scope_id = {_USER} AND {_USER} <> '') OR ({_HERE} AND {_MEMBER})"
_BASE_MADE: Final = f"({_OWN}) AND ((scope = 'user' AND scope_id = {_USER}) OR ({_HERE} AND {_WRITER}))"
_BASE_CHANGED: Final = (
    f"(scope = 'user' AND scope_id = {_USER} AND {_USER} <> '')"
    f" OR ({_HERE} AND ({_HEAD} OR ({_ROLE} = 'editor' AND {_OWN})))"
)


def _of_base(place: str) -> Mapping[str, str]:
    """The rows of a base are visible to those who see the base, and may be changed by those who may change the base."""
    seen = f"EXISTS (SELECT FROM {place})"
    changed = f"EXISTS (SELECT FROM {place} AND ({_BASE_CHANGED}))"
    return {"SELECT": seen, "INSERT": changed, "UPDATE": changed, "DELETE": changed}


_Rules = Mapping[str, str]
_RULES: Final[Mapping[str, _Rules]] = {
    "memory_item": {"SELECT": _SEEN, "INSERT": _MADE, "UPDATE": _EDITED, "DELETE": _REMOVED},
    # A vector is stored with its item, and the item's own rules decide who may make or change it.
    "memory_vector_pg": {"SELECT": _SEEN, "INSERT": _SEEN, "UPDATE": _SEEN, "DELETE": _SEEN},
    "memory_history": {"SELECT": _TOLD, "INSERT": f"by = {_USER}", "UPDATE": _TOLD},
    # A link names ids only; the rules of the items decide who reads them.
    "memory_link": dict.fromkeys(("SELECT", "INSERT", "UPDATE", "DELETE"), _LINKED),
    "memory_cursor": dict.fromkeys(("SELECT", "INSERT", "UPDATE", "DELETE"), _OF_USER),
    "memory_batch": dict.fromkeys(("SELECT", "INSERT", "UPDATE", "DELETE"), _OF_USER),
    "memory_batch_step": dict.fromkeys(("SELECT", "INSERT", "UPDATE", "DELETE"), _OF_BATCH),
    "user_profile": dict.fromkeys(("SELECT", "INSERT", "UPDATE", "DELETE"), _OF_USER),
    "user_setting": dict.fromkeys(("SELECT", "INSERT", "UPDATE", "DELETE"), _OF_USER),
    "project_profile": {
        "SELECT": f"{_OF_PROJECT} AND {_MEMBER}",
        **dict.fromkeys(("INSERT", "UPDATE", "DELETE"), f"{_OF_PROJECT} AND {_WRITER}"),
    },
    # A user without a row is not a member. So a project's rows must be readable before the user's role is known.
    "project_member": {
        "SELECT": _OF_PROJECT,
        "INSERT": f"{_OF_PROJECT} AND {_HEAD}",
        "UPDATE": f"{_OF_PROJECT} AND {_HEAD}",
        "DELETE": f"{_OF_PROJECT} AND ({_HEAD} OR {_OF_USER})",
    },
    "knowledge_base": {
        "SELECT": _BASE_SEEN,
        "INSERT": _BASE_MADE,
        "UPDATE": _BASE_CHANGED,
        "DELETE": _BASE_CHANGED,
    },
    "knowledge_source": _of_base("knowledge_base AS of WHERE of.key = knowledge_source.base"),
    "knowledge_document": _of_base("knowledge_base AS of WHERE of.key = knowledge_document.base"),
    "knowledge_part": _of_base(
        "knowledge_document AS whole JOIN knowledge_base AS of ON of.key = whole.base"
        " WHERE whole.key = knowledge_part.document"
    ),
    # A collection is its base's: the base's row has the name before the first vector is written.
    "vector_collection_pg": _of_base("knowledge_base AS of WHERE of.collection = vector_collection_pg.name"),
    "vector_collection_pg_entry": _of_base(
        "vector_collection_pg AS whole JOIN knowledge_base AS of ON of.collection = whole.name"
        " WHERE whole.key = vector_collection_pg_entry.collection"
    ),
}

_SAY: Final = """
SELECT set_config('zeus.user_id', %(user)s, true), set_config('zeus.project_id', %(project)s, true),
  set_config('zeus.role', %(role)s, true), set_config('zeus.upkeep', %(upkeep)s, true)"""


def seen(table: str) -> str:
    """The condition under which the policy shows a row of one of the ``SECURED`` tables, on its columns.

    For functions that run with the rights of the tables' owner, who is exempt from policies.
    """
    return f"({_EVERYTHING} OR {_RULES[table]['SELECT']})"


def policies(table: str) -> list[str]:
    """The statements that secure a table; they replace its former policies."""
    statements = [f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY"]
    for command, rule in _RULES[table].items():
        name = f"zeus_{command.lower()}"
        allowed = f"({_EVERYTHING} OR {rule})"
        clauses = {
            "SELECT": f"USING {allowed}",
            "DELETE": f"USING {allowed}",
            "INSERT": f"WITH CHECK {allowed}",
            "UPDATE": f"USING {allowed} WITH CHECK {allowed}",
        }
        statements += [
            f"DROP POLICY IF EXISTS {name} ON {table}",
            f"CREATE POLICY {name} ON {table} FOR {command} {clauses[command]}",
        ]
    return statements


SECURED: Final = tuple(_RULES)
"""Tables with separate rows for each user or project."""


def secure_rows(connection: Connection, table: str) -> None:
    """Secure one of the ``SECURED`` tables: only the users concerned see and change a row."""
    for statement in policies(table):
        connection.exec_driver_sql(statement)


def act_for(connection: Connection, user_id: str, project_id: str | None, role: str | None) -> None:
    """Set the user, project and role of this transaction (PostgreSQL only)."""
    _say(connection, user=user_id, project=project_id or "", role=role or "", upkeep="")


def act_for_upkeep(connection: Connection) -> None:
    """Give this transaction access to all users' rows, for embedding, comparing indexes, and recording use."""
    _say(connection, user="", project="", role="", upkeep="on")


def _say(connection: Connection, **values: str) -> None:
    if connection.dialect.name == "postgresql":
        server_driver(connection).execute(_SAY, values)
