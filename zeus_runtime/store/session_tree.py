"""Sub-agents' sessions: made for one call of one run, and deleted with their parent session."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sqlalchemy import Connection, bindparam, delete, func, insert, select

from zeus_runtime.cutting import cut_text
from zeus_runtime.errors import UsageError
from zeus_runtime.store.backtests import drop_replays
from zeus_runtime.store.compiled_statements import Prepared
from zeus_runtime.store.compression import drop_rows
from zeus_runtime.store.fencing import holding, owning
from zeus_runtime.store.tables import ARCHIVE, NOTE, PARENT, THREAD
from zeus_runtime.store.thread_log import TITLE_CHARACTERS
from zeus_runtime.store.threads import Thread, first_epoch, key_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zeus_runtime.store.thread_log import ThreadLog


_BEGUN_WITH: Final = "begun_with"


class Child(NamedTuple):
    """The session that works for a call, or that worked for it before its arguments were changed.

    Args:
        begun_with: the call's arguments, with secrets masked; None for a session that an older Zeus made.
    """

    thread: Thread
    begun_with: Mapping[str, Any] | None


def child_session(parent: str, run_id: str, place: int, number: int = 0) -> str:
    """The id of a session that works for a call: the same whenever its run is resumed.

    Args:
        number: how many sessions worked for the call before, with other arguments.
    """
    parts = [parent, run_id, str(place), *([str(number)] if number else [])]
    return f"session_{hashlib.sha256(chr(10).join(parts).encode()).hexdigest()[:12]}"


def children_at(connection: Connection, parent: int, run_id: str, place: int) -> list[Child]:
    """The sessions of the call at a place, oldest first, so that each has its ``number`` as its index.

    Args:
        parent: the key of the session that made the call.
    """
    note = (NOTE.c.thread == PARENT.c.thread) & (NOTE.c.name == _BEGUN_WITH)
    query = (
        select(THREAD.c.key, THREAD.c.session, NOTE.c.value)
        .select_from(PARENT.join(THREAD, THREAD.c.key == PARENT.c.thread).outerjoin(NOTE, note))
        .where(PARENT.c.parent == parent, PARENT.c.run_id == run_id, PARENT.c.place == place)
        .order_by(PARENT.c.thread)
    )
    return [
        Child(Thread(key, session), None if value is None else json.loads(value))
        for key, session, value in connection.execute(query)
    ]


async def children_of_call(log: ThreadLog, parent: Thread, run_id: str, place: int) -> Sequence[Child]:
    """``children_at`` in a transaction of its own."""
    return await log.database.run(lambda connection: children_at(connection, parent.key, run_id, place))


async def open_child(
    log: ThreadLog,
    parent: Thread,
    run_id: str,
    place: int,
    begun_with: Mapping[str, Any],
    *,
    number: int = 0,
    agent: str,
    title: str,
    at_most: int,
) -> Thread | None:
    """The session that works for a call, made if it is new; None if its run already has ``at_most`` of them.

    Args:
        begun_with: of the ``Child``.
        number: of the session's id.

    Raises:
        LogConflictError: another process has claimed the parent.
    """
    session = child_session(parent.session, run_id, place, number)
    now = log.now_ms()

    def work(connection: Connection) -> Thread | None:
        find = select(THREAD.c.key).where(THREAD.c.session == session)
        # A resumed run comes here again with the same call.
        if (found := connection.execute(find).scalar()) is not None:
            return Thread(found, session)
        started = select(func.count()).where(PARENT.c.parent == parent.key, PARENT.c.run_id == run_id)
        # Counted under the lock of the parent's row (`owning`), so two calls of one answer cannot both be the last.
        if connection.execute(started).scalar_one() >= at_most:
            return None
        # The parent's owner, or the user of a service could not see the session of a sub-agent.
        owner = select(THREAD.c.owner, THREAD.c.owner_project).where(THREAD.c.key == parent.key)
        row = {"session": session, "agent": agent, "created_ms": now, "updated_ms": now}
        row |= connection.execute(owner).one()._mapping
        text = cut_text(title, TITLE_CHARACTERS).replace("\0", "\u2400")
        connection.execute(insert(THREAD), {**row, "title": text, "epoch": first_epoch()})
        key = connection.execute(find).scalar_one()
        link = {"thread": key, "parent": parent.key, "run_id": run_id, "place": place}
        connection.execute(insert(PARENT), {**link, "agent": agent, "created_ms": now})
        note = {"thread": key, "run_id": run_id, "name": _BEGUN_WITH, "created_ms": now}
        connection.execute(insert(NOTE), {**note, "value": json.dumps(begun_with, default=str)})
        return Thread(key, session)

    return await owning(log.database, parent, "a sub-agent", work)


async def helpers_of(log: ThreadLog, thread: Thread, run_id: str) -> list[Thread]:
    """The sessions of one run's sub-agents, and of their sub-agents."""

    def work(connection: Connection) -> list[Thread]:
        query = (
            select(THREAD.c.key, THREAD.c.session)
            .select_from(THREAD.join(PARENT, PARENT.c.thread == THREAD.c.key))
            .where(PARENT.c.parent == thread.key, PARENT.c.run_id == run_id)
        )
        first = [Thread(key, session) for key, session in connection.execute(query)]
        return [each for child in first for each in (child, *descendants_in(connection, child))]

    return await log.database.run(work)


def descendants_in(connection: Connection, thread: Thread) -> list[Thread]:
    """The sessions of a session's sub-agents and of their sub-agents, parents before children."""
    found: list[Thread] = []
    young = [thread.key]
    # One query for each level of the tree, not for each session.
    while young:
        query = (
            select(THREAD.c.key, THREAD.c.session)
            .select_from(THREAD.join(PARENT, PARENT.c.thread == THREAD.c.key))
            .where(PARENT.c.parent.in_(young))
            .order_by(PARENT.c.created_ms, PARENT.c.place)
        )
        born = [Thread(key, session) for key, session in connection.execute(query)]
        found += born
        young = [each.key for each in born]
    return found


async def own_family(log: ThreadLog, thread: Thread, what: str) -> list[Thread]:
    """A claimed session and its sub-agents' sessions, the session itself last.

    Args:
        what: the planned operation, for an error's message.

    Raises:
        LogConflictError: another process has claimed the session.
    """

    def work(connection: Connection) -> list[Thread]:
        return _family_in(connection, thread)

    return await owning(log.database, thread, what, work, archived=True)


async def removal(
    log: ThreadLog, thread: Thread, leaving: Callable[[Connection, Thread], None] = lambda _, __: None
) -> Callable[[Connection], None]:
    """A function that deletes a session and its sub-agents' sessions with all messages, archived or not.

    Called with a connection to the log's database, it deletes in that connection's transaction, and raises
    LogConflictError if the claim was lost.

    Args:
        leaving: called with each session before its rows are deleted.
    """
    hold = await holding(log.database, thread, "the end")

    def work(connection: Connection) -> None:
        # First: another claim of the session waits for the commit, and then finds it deleted.
        hold(connection)
        for each in _family_in(connection, thread):
            leaving(connection, each)
            drop_rows(connection, each.key)
            drop_replays(connection, each.key)
            connection.execute(delete(ARCHIVE).where(ARCHIVE.c.thread == each.key))
            connection.execute(delete(THREAD).where(THREAD.c.key == each.key))

    return work


def _family_in(connection: Connection, thread: Thread) -> list[Thread]:
    # Children first, so that no row refers to a deleted parent.
    return [*descendants_in(connection, thread)[::-1], thread]


async def parent_of(log: ThreadLog, thread: Thread) -> str | None:
    """The parent session; None for one of the user's own sessions."""
    return await log.database.run(lambda connection: parent_in(connection, thread))


async def agents_to(log: ThreadLog, session: str) -> tuple[Sequence[str], str]:
    """The names under ``agents``, outermost first, that lead to the agent of a session; and the outermost session.

    Raises:
        UsageError: the session does not exist, or it is archived.
    """
    names: list[str] = []
    thread = await log.find(session)
    # A session has one parent, which is older, so this ends at the outermost.
    while (parent := await parent_of(log, thread)) is not None:
        names.insert(0, (await log.info(thread)).agent.rpartition("/")[2])
        thread = await log.find(parent)
    return names, thread.session


async def outermost_of(log: ThreadLog, session: str) -> str | None:
    """The outermost session above a session, archived or not; None if the log may use none of that name."""

    def work(connection: Connection) -> str | None:
        key = key_of(connection, session, archived=True, owner=log.owner)
        if key is None:
            return None
        found = session
        while (parent := parent_in(connection, Thread(key, found))) is not None:
            found, key = parent, key_of(connection, parent, archived=True)
            assert key is not None, "a session goes with its parent"
        return found

    # No session has another name, and PostgreSQL refuses NUL in a parameter.
    return await log.database.run(work) if session.isprintable() else None


def refuse_inner(connection: Connection, thread: Thread) -> None:
    """Refuse a sub-agent's session: its parent's agent alone begins its runs, and it is kept with its parent.

    Raises:
        UsageError: it works for another session.
    """
    if (parent := parent_in(connection, thread)) is not None:
        raise UsageError(
            f"the session {thread.session} works for {parent}",
            remedy=f"Name {parent}: its sub-agents' sessions go along.",
        )


def parent_in(connection: Connection, thread: Thread) -> str | None:
    """``parent_of`` inside a larger transaction."""
    found = _PARENT.rows(connection, {"of_thread": thread.key})
    return found[0][0] if found else None


_PARENT: Final = Prepared(
    select(THREAD.c.session)
    .select_from(THREAD.join(PARENT, PARENT.c.parent == THREAD.c.key))
    .where(PARENT.c.thread == bindparam("of_thread"))
)
