"""The stored events of a session: numbered, in order, so that a reader can continue after a lost connection.

An event that tells of a message is stored in that message's transaction, or not at all. The others are stored soon
after they happen, the pieces of a text joined.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from sqlalchemy import ColumnElement, bindparam, case, delete, func, literal_column, select

from zeus_runtime.errors import CancelledRunError, ZeusError
from zeus_runtime.events import (
    Event,
    OutputPartial,
    Reasoning,
    RunCompleted,
    RunFailed,
    SubAgentEvent,
    Text,
    ToolCallChunk,
)
from zeus_runtime.store.compiled_statements import Prepared
from zeus_runtime.store.fencing import Fence, appending, put_all, reading
from zeus_runtime.store.tables import EVENT, THREAD
from zeus_runtime.strict_json import well_formed
from zeus_runtime.tools.run_to_completion import finished

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from zeus_runtime.store.database import Database
    from zeus_runtime.store.thread_log import ThreadLog
    from zeus_runtime.store.threads import Thread

_log = logging.getLogger(__name__)

GATHER_SECONDS: Final = 0.05
"""How long after the last events were stored the next may be, so that those of a fast model are stored together."""
SOON_SECONDS: Final = 0.003
"""How long an event waits for others if none was stored just before."""

MOST_NUMBER: Final = 2**31 - 1
"""The largest number that an event can have."""

_ENDS: Final = frozenset({RunCompleted.type, RunFailed.type})
_PIECES: Final = frozenset({Text.type, Reasoning.type, ToolCallChunk.type, OutputPartial.type})
"""Events that show an unfinished answer. They are void if the answer is never stored."""


_OTHER, _PIECE, _END = range(3)
"""The kinds of stored events: a piece of an unfinished answer, the end of a run, any other."""


class _LastEvents(NamedTuple):
    """How the stored events of one session's last run end, as event numbers; 0 if there is none.

    Args:
        last: its last event.
        whole: the last one that was stored with a message, or the last before the run.
        piece: its last piece.
        end: its last terminal event.
    """

    last: int
    whole: int
    piece: int
    end: int


class StoredEvent(NamedTuple):
    """One stored event.

    Args:
        seq: counts from 1 within its session.
        run: the run of the session's agent that emitted it, or whose sub-agent did.
        payload: the event's JSON text.
        ends: whether it is a terminal event, of the run or of a sub-agent's.
    """

    seq: int
    run: str
    payload: str
    ends: bool = False


@dataclass(frozen=True)
class _Waiting:
    """An event that is not stored yet.

    Args:
        session: the session that it comes from; a sub-agent's for its events.
        event: the event; of joined pieces the whole.
    """

    session: str
    event: Event


class AtEnd(Protocol):
    """Changes something in the transaction of a run's terminal event."""

    def claimed(self, connection: Connection) -> None:
        """Called in the first transaction of the session's claim, before the run begins; an error refuses the run."""
        ...

    def writing(self, event: Event) -> Callable[[Connection], None]:
        """A function that writes the change that belongs to ``event``; it may run twice."""
        ...

    def written(self) -> None:
        """Told when the change is committed."""
        ...


class EventLog:
    """The writer of one session's events, while a run works on it.

    Args:
        database: has the table.
        thread: the session, claimed by this process.
        deliver: receives each event once it is stored. If the database fails, it receives the rest at the end.
        stored: receives the rows after each commit.
        at_end: changes something together with the run's terminal event.
    """

    def __init__(
        self,
        database: Database,
        thread: Thread,
        deliver: Callable[[Event], None],
        stored: Callable[[str, Sequence[StoredEvent]], None],
        at_end: AtEnd | None = None,
    ) -> None:
        self._database = database
        self._thread = thread
        self._deliver = deliver
        self._stored = stored
        self._at_end = at_end
        self._next = 1
        self._run = ""
        self._last_run = ""
        self._resumed = False
        self._is_suspended = False
        self._unstored: list[Event] = []
        self._waiting: list[_Waiting] = []
        # Held over a whole store: events get their numbers when they are stored, so two stores must not overlap.
        self._lock = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None
        self._stored_at = float("-inf")
        # Keeps the task alive: the event loop itself refers to tasks only weakly.
        self._flushing: asyncio.Task[None] | None = None
        self._former: Mapping[str, _LastEvents] = {}

    async def begin(self) -> None:
        """Read where the session's events end.

        Raises:
            LogConflictError: the session was deleted.
        """

        def work(connection: Connection) -> tuple[int, str, Mapping[str, _LastEvents]]:
            if self._at_end is not None:
                self._at_end.claimed(connection)
            last, run = _last(connection, self._thread)
            return last, run, _last_events(connection, self._thread, run) if last else {}

        last, self._last_run, self._former = await reading(self._database, self._thread, work)
        self._next = last + 1

    def resume(self, session: str, run: str) -> None:
        """Say that ``run`` of ``session`` is resumed: the stored events tell of what it stored, if they are its own.

        The run of a sub-agent is resumed with the run that it works for.
        """
        if session == self._thread.session:
            self._resumed = bool(run) and self._last_run == run

    @property
    def is_resumed(self) -> bool:
        """Whether the stored events already tell of every message that the run stored before it was interrupted."""
        return self._resumed

    def lacks_end(self, session: str) -> bool:
        """Whether a resumed run, of the log's own session or of a sub-agent's, has no stored terminal event."""
        found = self._former.get(session) if self._resumed else None
        return found is not None and found.end < found.last

    def cut_off(self, session: str) -> int | None:
        """The last event before the pieces of an answer of ``session`` that the interruption cut off; None without."""
        found = self._former.get(session) if self._resumed else None
        return found.whole if found is not None and found.piece > found.whole else None

    def suspend(self) -> None:
        """Do not store that the run was cancelled: it is interrupted, and another process will end it.

        A run that ends by itself all the same has its end stored.
        """
        self._is_suspended = True

    def put(self, event: Event) -> None:
        """Store ``event`` soon; pieces of one text are joined."""
        origin = event.origin
        if self._is_suspended and isinstance(event, RunFailed) and event.code == CancelledRunError.code:
            self._unstored.append(event)
            return
        session = self._thread.session if origin is None else origin.session
        if origin is not None and session == self._thread.session:
            self._run = origin.run
        if self._waiting and (joined := _joined(self._waiting[-1], session, event)) is not None:
            self._waiting[-1] = joined
        else:
            self._waiting.append(_Waiting(session, event))
        # One timer for all that come until it fires. A message that is stored before takes them along.
        if self._timer is None:
            loop = asyncio.get_running_loop()
            soon = loop.time() + SOON_SECONDS
            self._timer = loop.call_at(max(soon, self._stored_at + GATHER_SECONDS), self._due)

    async def with_message(
        self, session: str, tell: Callable[[], None] | None, append: Callable[[Callable[..., None]], Any]
    ) -> None:
        """Store the waiting events in the transaction of a message of ``session``.

        Args:
            session: whose message it is: the log's own or that of a sub-agent.
            tell: emits the event that tells of the message.
            append: writes the message; called with a function that writes the events on its connection.
        """
        async with self._lock:
            # `told` is exact: no await lies between these lines, and the lock keeps a store from emptying the list.
            before = len(self._waiting)
            if tell is not None:
                tell()
            told = self._waiting[before:]
            try:
                # To its end also if the run is cancelled: what is stored must count as stored.
                await finished(self._store(append, finishes=session))
            except BaseException:
                # If the message is not stored, nothing may tell of it.
                self._waiting = [each for each in self._waiting if all(each is not one for one in told)]
                raise

    async def aclose(self) -> None:
        """Store what waits; a database that fails is logged, and the events reach their reader unstored."""
        if self._timer is not None:
            self._timer.cancel()
        # A store that runs already holds the lock, so this waits for it.
        await self._flush()
        for event in (*(each.event for each in self._waiting), *self._unstored):
            self._deliver(event)
        self._waiting.clear()

    def _due(self) -> None:
        self._timer = None
        self._flushing = asyncio.get_running_loop().create_task(self._flush(), name="store events")
        # `_store` keeps the events: the run's next store, at the latest that of `aclose`, meets the same failure.
        self._flushing.add_done_callback(lambda task: None if task.cancelled() else task.exception())

    async def _flush(self) -> None:
        def append(write: Callable[..., None]) -> Any:
            return appending(
                self._database, self._thread, "an event", lambda connection, _: write(connection)
            )

        async with self._lock:
            if not self._waiting:
                return
            try:
                await finished(self._store(append))
            except ZeusError as error:
                # The run meets the same failure at its next message, and ends with it.
                _log.warning("events of %s wait: %s", self._thread.session, error)

    async def _store(
        self, append: Callable[[Callable[..., None]], Any], *, finishes: str | None = None
    ) -> None:
        # Taken before the first await: events that come while the transaction runs belong to the next one.
        waiting, self._waiting = self._waiting, []
        rows = [
            StoredEvent(
                seq,
                self._run,
                well_formed(json.dumps(each.event.to_wire(), ensure_ascii=False)),
                _kind(each.event) == _END,
            )
            for seq, each in enumerate(waiting, self._next)
        ]
        epoch = self._database.epoch(self._thread.session)
        fence = None if epoch is None else Fence(self._thread.session, epoch)

        values = [
            {
                "thread": self._thread.key,
                "seq": row.seq,
                "session": each.session,
                "run_id": row.run,
                "kind": _kind(each.event),
                "with_message": int(each.session == finishes),
                "created_ms": 0 if each.event.origin is None else each.event.origin.time_ms,
                "payload": row.payload,
            }
            for row, each in zip(rows, waiting, strict=True)
        ]

        ends = [
            self._at_end.writing(each.event)
            for each in waiting
            if self._at_end is not None and each.event.type in _ENDS
        ]

        def write(connection: Connection) -> None:
            put_all(connection, EVENT, values, fence)
            # After the fenced rows: if the claim was lost, the run's end is not written either.
            for end in ends:
                end(connection)

        try:
            await append(write)
        except BaseException:
            # In front of those that came meanwhile. The numbers were not used up, so the next try leaves no gap.
            self._waiting[:0] = waiting
            raise
        if ends and self._at_end is not None:
            # Only now, because `write` may have run twice, or its transaction may have failed.
            self._at_end.written()
        self._next += len(rows)
        if self._timer is not None and not self._waiting:
            # The next event sets its own: this one's would store it alone, just before its message.
            self._timer.cancel()
            self._timer = None
        if not rows:
            return
        self._stored_at = asyncio.get_running_loop().time()
        self._stored(self._thread.session, rows)
        for each in waiting:
            # Delivered after the commit: a reader that loses its connection now finds the event again by its number.
            self._deliver(each.event)


async def events_after(log: ThreadLog, session: str, after: int, *, at_most: int) -> Sequence[StoredEvent]:
    """The stored events of a session with a greater number than ``after``, in order.

    Args:
        at_most: the most events to return.

    Raises:
        UsageError: the session does not exist, or it is archived.
    """

    def work(connection: Connection, thread: Thread) -> Sequence[StoredEvent]:
        # A client may send any number, and PostgreSQL refuses one beyond its integer.
        values = {"of_thread": thread.key, "after": min(after, MOST_NUMBER), "at_most": at_most}
        found = [
            StoredEvent(seq, run, payload, kind == _END)
            for seq, run, payload, kind in _AFTER.rows(connection, values)
        ]
        return log.shown_events(found)

    return await log.within(session, work)


async def has_events(database: Database, thread: Thread) -> bool:
    """Whether a session's events are stored; then every further run stores them too, so that none is missing."""
    return await last_number(database, thread) > 0


async def last_number(database: Database, thread: Thread) -> int:
    """The number of a session's last event; 0 without one."""
    return await database.run(lambda connection: _last(connection, thread)[0])


async def last_numbers(database: Database, sessions: Collection[str]) -> Mapping[str, int]:
    """The number of the last event of each of ``sessions`` that has events."""
    last = select(func.max(EVENT.c.seq)).where(EVENT.c.thread == THREAD.c.key).scalar_subquery()
    query = select(THREAD.c.session, last).where(THREAD.c.session.in_(sessions))
    found = await database.run(lambda connection: connection.execute(query).all())
    return {session: number for session, number in found if number is not None}


def drop_events(connection: Connection, before_ms: int, *, agent: str) -> int:
    """Remove the events of an agent's sessions from before ``before_ms`` (UTC milliseconds).

    The last event of each session stays, so that the numbers continue after it.

    Returns:
        how many went.
    """
    later = EVENT.alias()
    # The highest number of the whole session, not of the old events: else a session at rest would begin at 1 again.
    last = select(func.max(later.c.seq)).where(later.c.thread == EVENT.c.thread).scalar_subquery()
    own = select(THREAD.c.key).where(THREAD.c.agent == agent)
    old = (EVENT.c.created_ms < before_ms, EVENT.c.thread.in_(own), EVENT.c.seq < last)
    return connection.execute(delete(EVENT).where(*old)).rowcount


_AFTER: Final = Prepared(
    select(EVENT.c.seq, EVENT.c.run_id, EVENT.c.payload, EVENT.c.kind)
    .where(EVENT.c.thread == bindparam("of_thread"), EVENT.c.seq > bindparam("after"))
    .order_by(EVENT.c.seq)
    .limit(bindparam("at_most"))
)


_LAST: Final = Prepared(
    select(EVENT.c.seq, EVENT.c.run_id)
    .where(EVENT.c.thread == bindparam("of_thread"))
    .order_by(EVENT.c.seq.desc())
    .limit(literal_column("1"))
)


def _last(connection: Connection, thread: Thread) -> tuple[int, str]:
    """The number and the run of a session's last event; 0 without one."""
    found = _LAST.rows(connection, {"of_thread": thread.key})
    return (found[0][0], found[0][1]) if found else (0, "")


def _last_events(connection: Connection, thread: Thread, run: str) -> Mapping[str, _LastEvents]:
    """How the events of ``run``, the session's last one, end: for each session that they come from."""
    earlier = select(func.coalesce(func.max(EVENT.c.seq), 0)).where(
        EVENT.c.thread == thread.key, EVENT.c.run_id != run
    )
    # No other run has events after those of the last run, so all after `start` are its own.
    start = connection.execute(earlier).scalar_one()

    def highest(condition: ColumnElement[bool], default: int) -> ColumnElement[int]:
        return func.coalesce(func.max(case((condition, EVENT.c.seq))), default)

    query = (
        select(
            EVENT.c.session,
            func.max(EVENT.c.seq),
            highest(EVENT.c.with_message == 1, start),
            highest(EVENT.c.kind == _PIECE, 0),
            highest(EVENT.c.kind == _END, 0),
        )
        .where(EVENT.c.thread == thread.key, EVENT.c.seq > start)
        .group_by(EVENT.c.session)
    )
    return {session: _LastEvents(*numbers) for session, *numbers in connection.execute(query)}


def _kind(event: Event) -> int:
    kind = str(event.event.get("type")) if isinstance(event, SubAgentEvent) else event.type
    return _END if kind in _ENDS else _PIECE if kind in _PIECES else _OTHER


def _joined(former: _Waiting, session: str, event: Event) -> _Waiting | None:
    """The two events as one, if they are pieces of one text that follow each other."""
    if former.session != session:
        return None
    joined = _joined_events(former.event, event)
    if joined is None or former.event.origin is None:
        return None
    return replace(former, event=joined.coming_from(former.event.origin))


def _joined_events(former: Event, event: Event) -> Event | None:
    match former, event:
        case Text(), Text():
            return replace(former, text=former.text + event.text)
        case Reasoning(), Reasoning():
            return replace(former, text=former.text + event.text)
        # Only the first piece of a call has its id; another id begins another call.
        case ToolCallChunk(), ToolCallChunk() if event.call_id is None and event.index == former.index:
            return replace(former, arguments=former.arguments + event.arguments)
        case SubAgentEvent(), SubAgentEvent() if former.call_id == event.call_id:
            piece, last = event.event, former.event
            if piece["type"] == last["type"] and piece["type"] in (Text.type, Reasoning.type):
                return replace(former, event={**last, "text": last["text"] + piece["text"]})
    return None
