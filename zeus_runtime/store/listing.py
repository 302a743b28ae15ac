"""Sessions as lists show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, and_, bindparam, exists, func, literal_column, or_, select

from zeus_runtime.store.compiled_statements import Prepared
from zeus_runtime.store.tables import ARCHIVE, MESSAGE, PARENT, ROLLBACK, SNAPSHOT, THREAD
from zeus_runtime.store.threads import Owner, owned


@dataclass(frozen=True)
class SessionInfo:
    """A session as a list shows it; times in UTC milliseconds.

    Args:
        messages: the messages of its conversation; those that a rollback set aside count only in archived sessions.
        state: the outcome of its last turn: ``complete``, ``error``, ``interrupted`` or ``approval`` (it waits for a
            decision). ``open`` while it runs or after it was killed, ``rolled-back`` after a return to an earlier
            message, empty if unknown.
        archived_ms: when it was archived; None if it is not.
        parent: the parent session of a sub-agent's; empty for one of the user's sessions.
    """

    session: str
    agent: str
    title: str
    messages: int
    created_ms: int
    updated_ms: int
    state: str = ""
    archived_ms: int | None = None
    parent: str = ""


class SessionPlace(NamedTuple):
    """A place in a list that is read in parts: of sessions that were used in one millisecond, the id decides."""

    updated_ms: int
    session: str


# Later than any clock, and still within a 64-bit integer.
BEFORE_ALL: Final = SessionPlace(2**62, "")


def list_sessions(
    connection: Connection,
    *,
    agent: str | None,
    limit: int | None,
    archived: bool,
    owner: Owner | None = None,
    after: SessionPlace | None = None,
    only_own: bool = False,
) -> Sequence[SessionInfo]:
    """The user's sessions, last used first; with ``archived``, the archived ones instead of the others.

    Args:
        after: only those after this place of a list that is read in parts, the first from ``BEFORE_ALL``.
        only_own: without ``owner``, only those without an owner.
    """
    query = _INFOS[archived].order_by(THREAD.c.updated_ms.desc())
    if after is None:
        query = query.order_by(THREAD.c.key.desc())
    else:
        same = and_(THREAD.c.updated_ms == after.updated_ms, THREAD.c.session > after.session)
        query = query.where(or_(THREAD.c.updated_ms < after.updated_ms, same)).order_by(THREAD.c.session)
    whose = THREAD.c.owner.is_(None) if only_own and owner is None else owned(owner)
    query = query.where(PARENT.c.thread.is_(None), whose)
    if agent is not None:
        query = query.where(THREAD.c.agent == agent)
    if limit is not None:
        query = query.limit(limit)
    return [_info(*row) for row in connection.execute(query)]


def count_of_others(connection: Connection, agent: str, *, archived: bool) -> int:
    """The number of other agents' user sessions; with ``archived``, the archived ones instead of the others."""
    query = _INFOS[archived].where(PARENT.c.thread.is_(None), THREAD.c.agent != agent)
    # Otherwise SQLAlchemy would drop the joins, whose columns are no longer selected.
    found = query.with_only_columns(func.count(), maintain_column_froms=True)
    return int(connection.execute(found).scalar_one())


def children(connection: Connection, session: str, *, archived: bool = False) -> Sequence[SessionInfo]:
    """The sessions of a session's sub-agents, in the order in which they began.

    Args:
        archived: whether the session and its sub-agents' sessions are archived.
    """
    query = _INFOS[archived].where(_above.c.session == session)
    return [_info(*row) for row in connection.execute(query.order_by(THREAD.c.created_ms, THREAD.c.key))]


def one_session(connection: Connection, thread: int) -> SessionInfo:
    """The session of that key, archived or not."""
    rows = (_ONE[archived].rows(connection, {"of_thread": thread}) for archived in (False, True))
    return next(_info(*found[0]) for found in rows if found)


def last_used(
    connection: Connection, *, agent: str | None = None, session: str | None = None
) -> Sequence[tuple[str, int]]:
    """The user's sessions that are not archived and when each was last used, the last used first."""
    query = (
        select(THREAD.c.session, THREAD.c.updated_ms)
        .select_from(THREAD.outerjoin(ARCHIVE).outerjoin(PARENT, PARENT.c.thread == THREAD.c.key))
        .where(ARCHIVE.c.thread.is_(None), PARENT.c.thread.is_(None))
        .order_by(THREAD.c.updated_ms.desc(), THREAD.c.key.desc())
    )
    if agent is not None:
        query = query.where(THREAD.c.agent == agent)
    if session is not None:
        query = query.where(THREAD.c.session == session)
    return [(row[0], row[1]) for row in connection.execute(query)]


def archived_before(
    connection: Connection, before_ms: int, *, agent: str | None = None, session: str | None = None
) -> Sequence[str]:
    """The user's sessions that were archived before a time (UTC milliseconds), the longest archived first."""
    query = (
        select(THREAD.c.session)
        .select_from(THREAD.join(ARCHIVE).outerjoin(PARENT, PARENT.c.thread == THREAD.c.key))
        .where(ARCHIVE.c.archived_ms < before_ms, PARENT.c.thread.is_(None))
        .order_by(ARCHIVE.c.archived_ms, THREAD.c.key)
    )
    if agent is not None:
        query = query.where(THREAD.c.agent == agent)
    if session is not None:
        query = query.where(THREAD.c.session == session)
    return list(connection.execute(query).scalars())


_above = THREAD.alias("above")
_STATES: dict[str, str] = {"turn-start": "open", "manual": "rolled-back"}


def _infos(*, archived: bool) -> Any:
    """The query for the fields of ``SessionInfo``, in order."""
    aside = exists().where(
        ROLLBACK.c.thread == MESSAGE.c.thread,
        MESSAGE.c.seq > ROLLBACK.c.kept_seq,
        MESSAGE.c.seq <= ROLLBACK.c.last_seq,
    )
    count = (
        select(func.count())
        .select_from(MESSAGE)
        .where(MESSAGE.c.thread == THREAD.c.key, ~aside)
        .scalar_subquery()
    )
    reason = (
        select(SNAPSHOT.c.reason)
        .where(SNAPSHOT.c.thread == THREAD.c.key)
        .order_by(SNAPSHOT.c.number.desc())
        .limit(literal_column("1"))
        .scalar_subquery()
    )
    query = select(
        THREAD.c.session,
        THREAD.c.agent,
        THREAD.c.title,
        # An archived session has no rows of messages to count.
        ARCHIVE.c.messages if archived else count,
        THREAD.c.created_ms,
        THREAD.c.updated_ms,
        reason,
        ARCHIVE.c.archived_ms,
        _above.c.session,
    ).select_from(
        (THREAD.join(ARCHIVE) if archived else THREAD.outerjoin(ARCHIVE))
        .outerjoin(PARENT, PARENT.c.thread == THREAD.c.key)
        .outerjoin(_above, PARENT.c.parent == _above.c.key)
    )
    return query if archived else query.where(ARCHIVE.c.thread.is_(None))


_INFOS = {archived: _infos(archived=archived) for archived in (False, True)}
_ONE = {
    archived: Prepared(query.where(THREAD.c.key == bindparam("of_thread")))
    for archived, query in _INFOS.items()
}


def _info(*row: Any) -> SessionInfo:
    session, agent, title, messages, created_ms, updated_ms, reason, archived_ms, parent = row
    state = _STATES.get(reason, reason or "")
    return SessionInfo(
        session, agent, title, messages, created_ms, updated_ms, state, archived_ms, parent or ""
    )
