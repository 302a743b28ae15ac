"""The append-only log: every message of every session, once, in order, with the view's edits and the ledger."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sqlalchemy import BindParameter, Connection, bindparam, insert, literal_column, select, update

from zeus_runtime.cutting import cut_text
from zeus_runtime.errors import NotFoundError
from zeus_runtime.store import schema
from zeus_runtime.store.compiled_statements import Prepared
from zeus_runtime.store.compressed_columns import Packed
from zeus_runtime.store.database import Database
from zeus_runtime.store.fencing import Fence, appending, put, put_new_texts, reading
from zeus_runtime.store.file_references import named_by_own, note_files
from zeus_runtime.store.listing import (
    SessionInfo,
    SessionPlace,
    children,
    count_of_others,
    list_sessions,
    one_session,
)
from zeus_runtime.store.snapshots import take_snapshot
from zeus_runtime.store.tables import EDIT, MESSAGE, STEP, TEXT, THREAD
from zeus_runtime.store.threads import HERE, Owner, Thread, agent_of, first_epoch, key_of, of_row, owner_of

if TYPE_CHECKING:
    from zeus_runtime.store.event_log import EventLog, StoredEvent

T = TypeVar("T")

TITLE_CHARACTERS = 80

_OF_THREAD: Final[BindParameter[int]] = bindparam("of_thread")
_MESSAGES: Final = (
    select(MESSAGE.c.seq, MESSAGE.c.id, MESSAGE.c.payload, MESSAGE.c.created_ms)
    .where(MESSAGE.c.thread == _OF_THREAD, MESSAGE.c.seq > bindparam("after"))
    .order_by(MESSAGE.c.seq)
)
_EDITS: Final = Prepared(
    select(EDIT.c.number, EDIT.c.at_seq, EDIT.c.payload)
    .where(EDIT.c.thread == _OF_THREAD)
    .order_by(EDIT.c.number)
)
_ALL_MESSAGES: Final = Prepared(_MESSAGES)
_OF_STEPS: Final = select(STEP.c.number, STEP.c.seq, STEP.c.payload, STEP.c.created_ms).where(
    STEP.c.thread == _OF_THREAD
)
_STEPS: Final = _OF_STEPS.order_by(STEP.c.number)
_LAST_STEP: Final = Prepared(
    # The driver gives the payload as it is stored.
    _OF_STEPS.order_by(STEP.c.number.desc()).limit(literal_column("1"))
)
_PACKED: Final = Packed()
_MADE: Final = Prepared(
    insert(THREAD)
    .values(
        {each.name: bindparam(each.name, type_=each.type) for each in THREAD.columns if each.name != "key"}
    )
    .returning(THREAD.c.key)
)
_TOUCHED: Final = Prepared(update(THREAD).where(HERE).values(updated_ms=bindparam("now_ms")))


@dataclass(frozen=True)
class LogEntry:
    """One stored message; ``payload`` is JSON text."""

    seq: int
    id: str
    payload: str
    created_ms: int


@dataclass(frozen=True)
class StepEntry:
    """One stored entry of the ledger.

    Args:
        number: counts from 1 within the session.
        seq: the last message before the call.
        payload: JSON text.
        created_ms: when it was written, in UTC milliseconds; not set in a new entry.
        texts: the texts that the entry refers to and that may not be stored yet, by digest; empty when read.
    """

    number: int
    seq: int
    payload: str
    created_ms: int = 0
    texts: Mapping[str, str] = field(default_factory=dict)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class ThreadLog:
    """Reads and appends; no method changes or removes a message, except by deleting its whole session.

    If the session is claimed, entries are appended in the claim's epoch (``fencing``).

    Args:
        database: has the tables.
        now_ms: the clock, UTC milliseconds.
        owner: only this user's sessions exist here; None for all sessions.

    Attributes:
        events: the writers of the events of running sessions that store them, by session; a sub-agent's session has
            that of the session it works for.
    """

    def __init__(
        self, database: Database, *, now_ms: Callable[[], int] = _now_ms, owner: Owner | None = None
    ) -> None:
        self.database = database
        self.owner = owner
        self.now_ms = now_ms
        self.events: dict[str, EventLog] = {}

    def shown(self, payload: str) -> str:
        """The JSON text of a row, as a reader of this log sees it."""
        return payload

    def shown_events(self, events: Sequence[StoredEvent]) -> Sequence[StoredEvent]:
        """Events that follow each other, as a reader of this log sees them."""
        return events

    async def look(self, session: str) -> None:
        """Called before the rows of a session are read, with any name, so that ``shown`` knows what they may hold."""

    async def create_tables(self) -> None:
        """Ensure that the database has this program's tables; ``schema.ready`` has the details and the errors."""
        await schema.ready(self.database)

    async def open(self, session: str, *, agent: str, title: str = "") -> Thread:
        """The thread of ``session``, made if it is new.

        Raises:
            UsageError: it is archived.
        """
        return await self.database.run(
            lambda connection: self._open_in(connection, session, agent=agent, title=title)
        )

    async def opened(self, session: str, *, agent: str, title: str = "") -> SessionInfo:
        """``open``, and the session as a list shows it."""

        def work(connection: Connection) -> SessionInfo:
            return one_session(connection, self._open_in(connection, session, agent=agent, title=title).key)

        return await self.database.run(work)

    def _open_in(self, connection: Connection, session: str, *, agent: str, title: str) -> Thread:
        key = key_of(connection, session, owner=self.owner)
        if key is None:
            now = self.now_ms()
            row = {
                "session": session,
                "agent": agent,
                "created_ms": now,
                "updated_ms": now,
                "title": _storable(cut_text(title, TITLE_CHARACTERS)),
                "epoch": first_epoch(),
                "owner": self.owner and self.owner.user,
                "owner_project": self.owner and self.owner.project,
            }
            ((key,),) = _MADE.rows(connection, row)
        return Thread(int(key), session)

    async def find(self, session: str, *, archived: bool = False) -> Thread:
        """The thread of ``session``.

        Args:
            archived: whether it may be archived.

        Raises:
            UsageError: the session does not exist, or it is archived.
        """
        return await self.within(session, lambda _connection, thread: thread, archived=archived)

    async def within(
        self, session: str, work: Callable[[Connection, Thread], T], *, archived: bool = False
    ) -> T:
        """Find the thread of ``session``, as ``find`` does, and run ``work`` with it in the same transaction."""

        def found(connection: Connection) -> T:
            # No session has an id that is not printable, and PostgreSQL refuses NUL in a parameter.
            key = key_of(connection, session, archived=archived, owner=self.owner) if is_name else None
            if key is None:
                raise NotFoundError(
                    f"there is no session {session!r}", remedy="`zeus sessions list` shows those there are."
                )
            return work(connection, Thread(key, session))

        is_name = session.isprintable()
        await self.look(session)
        return await self.database.run(found)

    async def seek(self, session: str) -> SessionInfo | None:
        """The session as a list shows it, archived or not; None if it does not exist."""
        try:
            return await self.within(
                session, lambda connection, thread: one_session(connection, thread.key), archived=True
            )
        except NotFoundError:
            return None

    async def agent_of(self, session: str) -> str | None:
        """The agent of a session, archived or not; None if it does not exist."""
        if not session.isprintable():
            return None
        return await self.database.run(lambda connection: agent_of(connection, session, owner=self.owner))

    async def owner_of(self, session: str) -> Owner | None:
        """The user to whom a session belongs, archived or not; None if it has none or does not exist."""
        return await self.database.run(lambda connection: owner_of(connection, session))

    async def has(self, session: str) -> bool:
        """Whether the session exists, archived or not."""
        return await self._key(session, archived=True) is not None

    async def _key(self, session: str, *, archived: bool) -> int | None:
        # No session has such an id, and PostgreSQL refuses NUL in a parameter.
        if not session.isprintable():
            return None
        return await self.database.run(
            lambda connection: key_of(connection, session, archived=archived, owner=self.owner)
        )

    async def append(
        self,
        thread: Thread,
        seq: int,
        message_id: str,
        payload: str,
        *,
        step: StepEntry | None = None,
        begins: str | None = None,
        tell: Callable[[], None] | None = None,
    ) -> int:
        """Write one message at ``seq``, and in the same transaction the ledger's entry of the call that made it.

        Args:
            step: that entry.
            begins: the run whose turn begins with the message: a snapshot is taken.
            tell: emits the event that tells of the message. It is stored in the same transaction, if the session's
                events are stored; a reader receives it when the message is stored.

        Returns:
            when it was written, in UTC milliseconds.

        Raises:
            LogConflictError: another process has written at ``seq``, or claimed the session.
        """
        # Read once, outside `work`, which may run twice and must write the same row.
        now = self.now_ms()
        row = {"thread": thread.key, "seq": seq, "id": message_id, "created_ms": now, "payload": payload}

        def work(connection: Connection, fence: Fence | None) -> None:
            # First, and the only one with the fence: it holds the epoch until the commit, also for the rows that
            # follow.
            put(connection, MESSAGE, row, fence)
            note_files(connection, thread.key, [payload])
            if step is not None:
                self._write_step(connection, thread, step)
            if begins is not None:
                take_snapshot(connection, thread, begins, "turn-start", now)

        async def append(events: Callable[[Connection], None] = lambda _connection: None) -> None:
            def both(connection: Connection, fence: Fence | None) -> None:
                work(connection, fence)
                events(connection)

            await appending(self.database, thread, f"message {seq}", both)

        kept = self.events.get(thread.session)
        if kept is not None:
            # The event log calls `append` itself: it numbers its events and writes them in the same transaction.
            await kept.with_message(thread.session, tell, append)
        else:
            await append()
            # After the commit: an observer must not hear of a message that a crash could still undo.
            if tell is not None:
                tell()
        return now

    async def read(self, thread: Thread, *, after: int = 0, limit: int | None = None) -> Sequence[LogEntry]:
        """The messages with a ``seq`` greater than ``after``, in order; at most ``limit``."""
        return await reading(
            self.database, thread, lambda connection: self.read_in(connection, thread, after, limit)
        )

    def read_in(
        self, connection: Connection, thread: Thread, after: int = 0, limit: int | None = None
    ) -> Sequence[LogEntry]:
        """``read`` inside a larger transaction."""
        values = {"of_thread": thread.key, "after": after}
        rows: Iterable[Any] = (
            _ALL_MESSAGES.rows(connection, values)
            if limit is None
            else connection.execute(_MESSAGES.limit(limit), values)
        )
        return [LogEntry(*row) for row in rows]

    async def read_edits(self, thread: Thread) -> Sequence[str]:
        """The edits' payloads, in the order of admission."""
        query = select(EDIT.c.payload).where(EDIT.c.thread == thread.key).order_by(EDIT.c.number)
        return await reading(
            self.database, thread, lambda connection: list(connection.execute(query).scalars())
        )

    async def append_edits(self, thread: Thread, number: int, at_seq: int, payloads: Sequence[str]) -> None:
        """Write edits of the view, the first with number ``number``, all or none.

        Raises:
            LogConflictError: another process wrote one of them.
        """
        rows = [
            {"thread": thread.key, "number": number + offset, "at_seq": at_seq, "payload": payload}
            # Numbered by the caller and not here: if another process has admitted edits, the primary key must refuse
            # these.
            for offset, payload in enumerate(payloads)
        ]

        def work(connection: Connection, fence: Fence | None) -> None:
            for row in rows:
                put(connection, EDIT, row, fence)
            note_files(connection, thread.key, payloads)

        await appending(self.database, thread, f"edit {number}", work)

    async def edit_entries(self, thread: Thread) -> Sequence[tuple[int, int, str]]:
        """The edits as (number, ``seq`` of the last message before it, payload), in the order of admission."""
        return await reading(self.database, thread, lambda connection: self.edits_in(connection, thread))

    def edits_in(self, connection: Connection, thread: Thread) -> Sequence[tuple[int, int, str]]:
        """``edit_entries`` inside a larger transaction."""
        rows = _EDITS.rows(connection, {"of_thread": thread.key})
        return [(row[0], row[1], row[2]) for row in rows]

    async def append_step(self, thread: Thread, step: StepEntry) -> None:
        """Write an entry of the ledger without a message.

        Raises:
            LogConflictError: another process wrote it.
        """
        await appending(
            self.database,
            thread,
            f"step {step.number}",
            lambda connection, fence: self._write_step(connection, thread, step, fence),
        )

    async def steps(self, thread: Thread, *, last: bool = False) -> Sequence[StepEntry]:
        """The ledger's entries in order, or only the last one."""
        return await reading(
            self.database, thread, lambda connection: self.steps_in(connection, thread, last=last)
        )

    def steps_in(self, connection: Connection, thread: Thread, *, last: bool = False) -> Sequence[StepEntry]:
        """``steps`` inside a larger transaction."""
        here = {"of_thread": thread.key}
        if last:
            return [
                StepEntry(number, seq, _PACKED.process_result_value(payload, None) or "", created_ms)
                for number, seq, payload, created_ms in _LAST_STEP.rows(connection, here)
            ]
        return [StepEntry(*row) for row in connection.execute(_STEPS, here)]

    async def texts(self, thread: Thread, digests: Sequence[str] | None = None) -> Mapping[str, str]:
        """All texts that the session's ledger refers to, or those of ``digests``, by digest."""
        query = select(TEXT.c.digest, TEXT.c.text).where(TEXT.c.thread == thread.key)
        if digests is not None:
            query = query.where(TEXT.c.digest.in_(digests))
        return await reading(
            self.database, thread, lambda connection: {row[0]: row[1] for row in connection.execute(query)}
        )

    def _write_step(
        self, connection: Connection, thread: Thread, step: StepEntry, fence: Fence | None = None
    ) -> None:
        if step.texts:
            # A first request brings dozens of texts, one or more for each tool.
            rows = [
                {"thread": thread.key, "digest": digest, "text": _storable(text)}
                for digest, text in step.texts.items()
            ]
            put_new_texts(connection, rows)
        entry = {
            "thread": thread.key,
            "number": step.number,
            "seq": step.seq,
            "created_ms": self.now_ms(),
            "payload": step.payload,
        }
        put(connection, STEP, entry, fence)

    async def touch(self, thread: Thread) -> None:
        """Mark the session as used now."""
        await self.database.run(lambda connection: self.touch_in(connection, thread))

    def touch_in(self, connection: Connection, thread: Thread) -> None:
        """Mark the session as used now, inside a larger transaction."""
        _TOUCHED.changed(connection, {**of_row(thread), "now_ms": self.now_ms()})

    async def sessions(
        self,
        *,
        agent: str | None = None,
        limit: int | None = None,
        archived: bool = False,
        after: SessionPlace | None = None,
        only_own: bool = False,
    ) -> Sequence[SessionInfo]:
        """The user's sessions, last used first; with ``archived``, the archived ones instead of the others.

        Args:
            after: only those after this place of a list that is read in parts, the first from ``BEFORE_ALL``.
            only_own: leave out the sessions of a service's users, if this log is for everyone.
        """
        return await self.database.run(
            lambda connection: list_sessions(
                connection,
                agent=agent,
                limit=limit,
                archived=archived,
                owner=self.owner,
                after=after,
                only_own=only_own,
            )
        )

    async def count_of_others(self, agent: str, *, archived: bool = False) -> int:
        """The number of other agents' sessions that ``sessions`` would return."""
        return await self.database.run(
            lambda connection: count_of_others(connection, agent, archived=archived)
        )

    async def children(self, session: str, *, archived: bool = False) -> Sequence[SessionInfo]:
        """The sessions of a session's sub-agents, in the order in which they began."""
        return await self.database.run(lambda connection: children(connection, session, archived=archived))

    async def own_files(self, paths: Collection[str]) -> set[str]:
        """Those of ``paths``, files that Zeus keeps for sessions, that belong to the user's; all without an owner."""
        owner = self.owner
        if owner is None:
            return set(paths)
        return await self.database.run(lambda connection: named_by_own(connection, owner, paths))

    async def info(self, thread: Thread) -> SessionInfo:
        """The session as a list shows it."""
        return await reading(self.database, thread, lambda connection: one_session(connection, thread.key))


def _storable(text: str) -> str:
    """``text`` without NUL, which PostgreSQL cannot store; the symbol for NUL replaces it."""
    return text.replace("\0", "\u2400")
