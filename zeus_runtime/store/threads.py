"""A session's row, and whether it may be used."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

from sqlalchemy import ColumnElement, Connection, and_, bindparam, select, true

from zeus_runtime.command_lines import zeus_command
from zeus_runtime.errors import UsageError
from zeus_runtime.store.compiled_statements import Prepared
from zeus_runtime.store.row_security import EVERYONE, Acting
from zeus_runtime.store.tables import ARCHIVE, THREAD

Role: TypeAlias = Literal["owner", "admin", "editor", "viewer"]
"""A user's role in a project."""


class Owner(NamedTuple):
    """The user of a service, on whose behalf sessions are read and written.

    Args:
        user: the user's id.
        project: the project that the user works in; None outside projects.
        role: the user's role there, as long as the project has no members; None is the least. Sessions have none: a
            user reaches them in any role.
    """

    user: str
    project: str | None = None
    role: Role | None = None


def acting_for(owner: Owner | None) -> Acting:
    """On whose behalf the transactions of an owner's sessions run; without an owner, of every session."""
    return EVERYONE if owner is None else Acting(owner.user, owner.project or "", owner.role or "")


@dataclass(frozen=True)
class Thread:
    """A session's key in the log, and its id."""

    key: int
    session: str


def first_epoch() -> int:
    """The epoch of a new session: random, because an earlier session may have had the same id and key."""
    # Far below 2**31: the column is a 32-bit integer, and each claim adds one.
    return secrets.randbelow(2**30)


HERE: Final = and_(THREAD.c.key == bindparam("thread_key"), THREAD.c.session == bindparam("thread_session"))
"""The condition for a session's own row, with the parameters ``of_row``.

It compares the id too, because SQLite reuses a deleted row's key.
"""


def of_row(thread: Thread) -> dict[str, object]:
    """The parameters of ``HERE``."""
    return {"thread_key": thread.key, "thread_session": thread.session}


def owned(owner: Owner | None) -> ColumnElement[bool]:
    """The condition that a session is ``owner``'s; None may use every session."""
    if owner is None:
        return true()
    return and_(THREAD.c.owner == owner.user, THREAD.c.owner_project.is_not_distinct_from(owner.project))


OWNED: Final = and_(
    THREAD.c.owner == bindparam("of_user"),
    THREAD.c.owner_project.is_not_distinct_from(bindparam("in_project", type_=THREAD.c.owner_project.type)),
)
"""``owned`` with the parameters ``of_owner``."""


def of_owner(owner: Owner) -> dict[str, object]:
    """The parameters of ``OWNED``."""
    return {"of_user": owner.user, "in_project": owner.project}


def agent_of(connection: Connection, session: str, *, owner: Owner | None = None) -> str | None:
    """The agent of a session, archived or not; None if it does not exist, or is another owner's."""
    statement, whose = (_AGENT, {}) if owner is None else (_AGENT_OWN, of_owner(owner))
    found = statement.rows(connection, {"thread_session": session, **whose})
    return str(found[0][0]) if found else None


def owner_of(connection: Connection, session: str) -> Owner | None:
    """The user to whom a session belongs, archived or not; None if it has none or does not exist."""
    for user, project in _OWNER.rows(connection, {"thread_session": session}):
        return None if user is None else Owner(user, project)
    return None


def key_of(
    connection: Connection, session: str, *, archived: bool = False, owner: Owner | None = None
) -> int | None:
    """The key of a session; None if it does not exist, or is another owner's.

    Args:
        archived: whether it may be archived.

    Raises:
        UsageError: it is archived.
    """
    statement, whose = (_FOUND, {}) if owner is None else (_FOUND_OWN, of_owner(owner))
    rows = statement.rows(connection, {"thread_session": session, **whose})
    if not rows:
        return None
    ((key, archived_ms),) = rows
    if archived_ms is not None and not archived:
        raise _archived(session)
    return int(key)


def refuse_archived(connection: Connection, thread: Thread) -> None:
    """Check that the session is not archived.

    Raises:
        UsageError: it is archived.
    """
    if _PACKED.rows(connection, {"thread_key": thread.key}):
        raise _archived(thread.session)


_FIND: Final = (
    select(THREAD.c.key, ARCHIVE.c.archived_ms)
    .outerjoin(ARCHIVE)
    .where(THREAD.c.session == bindparam("thread_session"))
)
_FOUND: Final = Prepared(_FIND)
_FOUND_OWN: Final = Prepared(_FIND.where(OWNED))
_AGENT_FIND: Final = select(THREAD.c.agent).where(THREAD.c.session == bindparam("thread_session"))
_AGENT: Final = Prepared(_AGENT_FIND)
_AGENT_OWN: Final = Prepared(_AGENT_FIND.where(OWNED))
_OWNER: Final = Prepared(
    select(THREAD.c.owner, THREAD.c.owner_project).where(THREAD.c.session == bindparam("thread_session"))
)
_PACKED: Final = Prepared(select(ARCHIVE.c.thread).where(ARCHIVE.c.thread == bindparam("thread_key")))


def _archived(session: str) -> UsageError:
    return UsageError(
        f"the session {session} is archived",
        remedy=f"`{zeus_command('sessions', 'restore', session)}` brings it back.",
    )
