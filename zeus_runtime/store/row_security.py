"""Row-level security on PostgreSQL: a second barrier behind the conditions in all queries of users' rows.

Each transaction names its user (``act_for``, or ``Acting`` of a whole database), and the server shows and accepts rows
accordingly, whatever the query says. A transaction that names no user sees nothing. The tables' owner and superusers
are exempt, so agents have to use another role (docs/how-to/deployment.md). This catches a forgotten condition; a
client that can send any SQL can also claim to be another user.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sqlalchemy import inspect

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


_COMMANDS: Final = ("SELECT", "INSERT", "UPDATE", "DELETE")

# A step writes ten small rows of its session, each by a statement that is planned anew: without subqueries, planning
# takes half as long.
_ALL: Final = "current_setting('zeus.upkeep', true) = 'on'"
_OWNERS: Final = (
    f"{_ALL} OR (owner = current_setting('zeus.user_id', true) AND owner <> ''"
    " AND coalesce(owner_project, '') = coalesce(current_setting('zeus.project_id', true), ''))"
)


def _of_session(table: str) -> Mapping[str, str]:
    """The rows of a session are visible to those who see the session."""
    # Not EXISTS: for many rows, the server would read all sessions first.
    seen = f"{_ALL} OR (SELECT true FROM thread AS of WHERE of.key = {table}.thread)"
    # The function's plan is made once for a connection.
    return {**dict.fromkeys(_COMMANDS, seen), "INSERT": "zeus_sees(thread)"}


_Rules = Mapping[str, str]
SESSIONS: Final[Mapping[str, _Rules]] = {
    "thread": dict.fromkeys(_COMMANDS, _OWNERS),
    "backtest": dict.fromkeys(_COMMANDS, _OWNERS),
    **{
        table: _of_session(table)
        for table in (
            "message",
            "context_edit",
            "context_step",
            "context_text",
            "thread_rollback",
            "session_state_snapshot",
            "checkpoint_archive",
            "thread_parent",
            "pending_approval",
            "run_note",
            "run_event",
            "turn",
            "backtest_replay",
            "original_handle",
        )
    },
    "allowlist": dict.fromkeys(_COMMANDS, f'{_ALL} OR "user" = {_USER}'),
}
"""The tables of sessions. A session that no user of a service began is visible to upkeep only, as all are."""

_RULES: Final[Mapping[str, _Rules]] = {
    "memory_item": {"SELECT": _SEEN, "INSERT": _MADE, "UPDATE": _EDITED, "DELETE": _REMOVED},
    # A vector is stored with its item, and the item's own rules decide who may make or change it.
    "memory_vector_pg": {"SELECT": _SEEN, "INSERT": _SEEN, "UPDATE": _SEEN, "DELETE": _SEEN},
    "memory_history": {"SELECT": _TOLD, "INSERT": f"by = {_USER}", "UPDATE": _TOLD},
    # A link names ids only; the rules of the items decide who reads them.
    "memory_link": dict.fromkeys(_COMMANDS, _LINKED),
    "memory_cursor": dict.fromkeys(_COMMANDS, _OF_USER),
    "memory_batch": dict.fromkeys(_COMMANDS, _OF_USER),
    "memory_batch_step": dict.fromkeys(_COMMANDS, _OF_BATCH),
    "user_profile": dict.fromkeys(_COMMANDS, _OF_USER),
    "user_setting": dict.fromkeys(_COMMANDS, _OF_USER),
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
    **SESSIONS,
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
        allowed = f"({rule})" if table in SESSIONS else f"({_EVERYTHING} OR {rule})"
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


_SEES: Final = f"""
CREATE OR REPLACE FUNCTION zeus_sees(wanted integer) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN coalesce({_ALL}, false) OR EXISTS (SELECT FROM thread WHERE key = wanted);
END $$"""
"""Whether a session is visible to the transaction's user."""

_IN_EPOCH: Final = """
CREATE OR REPLACE FUNCTION zeus_in_epoch(wanted text, held integer) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  before text := current_setting('zeus.upkeep', true);
  is_held boolean;
BEGIN
  PERFORM set_config('zeus.upkeep', 'on', true);
  PERFORM FROM thread WHERE session = wanted AND epoch = held FOR SHARE;
  is_held := FOUND;
  PERFORM set_config('zeus.upkeep', coalesce(before, ''), true);
  RETURN is_held;
END $$"""
"""Whether a session is in an epoch, which then stays until the transaction's end: for checkpointers, which know a
session and not its user."""

SECURED: Final = tuple(_RULES)
"""Tables with separate rows for each user or project."""


def secure_rows(connection: Connection, table: str) -> None:
    """Secure one of the ``SECURED`` tables: only the users concerned see and change a row."""
    for statement in policies(table):
        connection.exec_driver_sql(statement)


def secure_sessions(connection: Connection) -> None:
    """Secure the tables of sessions (PostgreSQL only); a later revision secures those that it makes."""
    if connection.dialect.name != "postgresql":
        return
    for statement in (_SEES, _IN_EPOCH):
        connection.exec_driver_sql(statement)
    found = set(inspect(connection).get_table_names())
    for table in SESSIONS:
        if table in found:
            secure_rows(connection, table)


class Acting(NamedTuple):
    """On whose behalf a transaction runs.

    Args:
        user: the user; empty for nobody.
        project: the project that the user works in; empty outside projects.
        role: the user's role there.
        upkeep: whether every user's rows are seen.
    """

    user: str = ""
    project: str = ""
    role: str = ""
    upkeep: bool = False


NOBODY: Final = Acting()
EVERYONE: Final = Acting(upkeep=True)


def begin_acting(raw: Any, acting: Acting) -> None:
    """Begin a transaction on psycopg's connection ``raw`` on behalf of somebody, in one message to the server.

    A separate statement would cost each small transaction a round trip more.
    """
    if not raw.autocommit:  # otherwise psycopg would send a BEGIN of its own
        raw.autocommit = True
    raw.execute(_beginning(acting))


# By the whole frozen `Acting`, so an entry is never stale.
@lru_cache(maxsize=256)
def _beginning(acting: Acting) -> str:
    from psycopg.sql import SQL, Identifier, Literal

    named = {"user_id": acting.user, "project_id": acting.project, "role": acting.role}
    named["upkeep"] = "on" if acting.upkeep else ""
    settings = [
        SQL("; SET LOCAL {} = {}").format(Identifier("zeus", name), Literal(value))
        for name, value in named.items()
        if value
    ]
    return (SQL("BEGIN") + SQL("").join(settings)).as_string(None)


def act(connection: Connection, acting: Acting) -> None:
    """Let the rest of this transaction run on behalf of somebody (PostgreSQL only)."""
    upkeep = "on" if acting.upkeep else ""
    _say(connection, user=acting.user, project=acting.project, role=acting.role, upkeep=upkeep)


def act_for(connection: Connection, user_id: str, project_id: str | None, role: str | None) -> None:
    """Set the user, project and role of this transaction (PostgreSQL only)."""
    act(connection, Acting(user_id, project_id or "", role or ""))


def act_for_upkeep(connection: Connection) -> None:
    """Give this transaction access to all users' rows, for embedding, comparing indexes, and recording use."""
    act(connection, EVERYONE)


@contextmanager
def for_everyone(connection: Connection) -> Iterator[None]:
    """Inside, this transaction sees all users' rows; afterwards it acts as before."""
    if connection.dialect.name != "postgresql":
        yield
        return
    raw = server_driver(connection)
    # NULL if this connection never had a value; `set_config` takes a text.
    before = raw.execute("SELECT current_setting('zeus.upkeep', true)").fetchone()[0] or ""
    raw.execute("SET LOCAL zeus.upkeep = 'on'")
    yield
    # After an error the transaction is over, and the setting with it.
    raw.execute("SELECT set_config('zeus.upkeep', %s, true)", [before])


def _say(connection: Connection, **values: str) -> None:
    if connection.dialect.name == "postgresql":
        server_driver(connection).execute(_SAY, values)
