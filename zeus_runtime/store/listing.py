"""Sessions as lists show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, exists, func, select

from zeus_runtime.store.tables import ArchiveRow, MessageRow, ParentRow, RollbackRow, SnapshotRow, ThreadRow

_thread = ThreadRow.__table__  # type: ignore[attr-defined]
_message = MessageRow.__table__  # type: ignore[attr-defined]
_rollback = RollbackRow.__table__  # type: ignore[attr-defined]
_snapshot = SnapshotRow.__table__  # type: ignore[attr-defined]
_archive = ArchiveRow.__table__  # type: ignore[attr-defined]
_parent = ParentRow.__table__  # type: ignore[attr-defined]


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


def list_sessions(
    connection: Connection, *, agent: str | None, limit: int | None, archived: bool
) -> Sequence[SessionInfo]:
    """The user's sessions, last used first; with ``archived``, the archived ones instead of the others."""
    query = _INFOS[archived].order_by(_thread.c.updated_ms.desc(), _thread.c.key.desc())
    query = query.where(_parent.c.thread.is_(None))
    if agent is not None:
        query = query.where(_thread.c.agent == agent)
    if limit is not None:
        query = query.limit(limit)
    return [_info(*row) for row in connection.execute(query)]


def count_of_others(connection: Connection, agent: str, *, archived: bool) -> int:
    """The number of other agents' user sessions; with ``archived``, the archived ones instead of the others."""
    query = _INFOS[archived].where(_parent.c.thread.is_(None), _thread.c.agent != agent)
    found = query.with_only_columns(func.count(), maintain_column_froms=True)
    return int(connection.execute(found).scalar_one())


def children(connection: Connection, session: str, *, archived: bool = False) -> Sequence[SessionInfo]:
    """The sessions of a session's sub-agents, in the order in which they began.

    Args:
        archived: whether the session and its sub-agents' sessions are archived.
    """
    query = _INFOS[archived].where(_above.c.session == session)
    return [_info(*row) for row in connection.execute(query.order_by(_thread.c.created_ms, _thread.c.key))]


def one_session(connection: Connection, thread: int) -> SessionInfo:
    """The session of that key, archived or not."""
    rows = (
        connection.execute(_INFOS[archived].where(_thread.c.key == thread)).first()
        for archived in (False, True)
    )
    return next(_info(*row) for row in rows if row is not None)


def last_used(
    connection: Connection, *, agent: str | None = None, session: str | None = None
) -> Sequence[tuple[str, int]]:
    """The user's sessions that are not archived and when each was last used, the last used first."""
    query = (
        select(_thread.c.session, _thread.c.updated_ms)
        .select_from(_thread.outerjoin(_archive).outerjoin(_parent, _parent.c.thread == _thread.c.key))
        .where(_archive.c.thread.is_(None), _parent.c.thread.is_(None))
        .order_by(_thread.c.updated_ms.desc(), _thread.c.key.desc())
    )
    if agent is not None:
        query = query.where(_thread.c.agent == agent)
    if session is not None:
        query = query.where(_thread.c.session == session)
    return [(row[0], row[1]) for row in connection.execute(query)]


def archived_before(
    connection: Connection, before_ms: int, *, agent: str | None = None, session: str | None = None
) -> Sequence[str]:
    """The user's sessions that were archived before a time (UTC milliseconds), the longest archived first."""
    query = (
        select(_thread.c.session)
        .select_from(_thread.join(_archive).outerjoin(_parent, _parent.c.thread == _thread.c.key))
        .where(_archive.c.archived_ms < before_ms, _parent.c.thread.is_(None))
        .order_by(_archive.c.archived_ms, _thread.c.key)
    )
    if agent is not None:
        query = query.where(_thread.c.agent == agent)
    if session is not None:
        query = query.where(_thread.c.session == session)
    return list(connection.execute(query).scalars())


_above = _thread.alias("above")
_STATES: dict[str, str] = {"turn-start": "open", "manual": "rolled-back"}


def _infos(*, archived: bool) -> Any:
    """The query for the fields of ``SessionInfo``, in order."""
    aside = exists().where(
        _rollback.c.thread == _message.c.thread,
        _message.c.seq > _rollback.c.kept_seq,
        _message.c.seq <= _rollback.c.last_seq,
    )
    count = (
        select(func.count())
        .select_from(_message)
        .where(_message.c.thread == _thread.c.key, ~aside)
        .scalar_subquery()
    )
    reason = (
        select(_snapshot.c.reason)
        .where(_snapshot.c.thread == _thread.c.key)
        .order_by(_snapshot.c.number.desc())
        .limit(1)
        .scalar_subquery()
    )
    query = select(
        _thread.c.session,
        _thread.c.agent,
        _thread.c.title,
        _archive.c.messages if archived else count,
        _thread.c.created_ms,
        _thread.c.updated_ms,
        reason,
        _archive.c.archived_ms,
        _above.c.session,
    ).select_from(
        (_thread.join(_archive) if archived else _thread.outerjoin(_archive))
        .outerjoin(_parent, _parent.c.thread == _thread.c.key)
        .outerjoin(_above, _parent.c.parent == _above.c.key)
    )
    return query if archived else query.where(_archive.c.thread.is_(None))


_INFOS = {archived: _infos(archived=archived) for archived in (False, True)}


def _info(*row: Any) -> SessionInfo:
    session, agent, title, messages, created_ms, updated_ms, reason, archived_ms, parent = row
    state = _STATES.get(reason, reason or "")
    return SessionInfo(
        session, agent, title, messages, created_ms, updated_ms, state, archived_ms, parent or ""
    )
