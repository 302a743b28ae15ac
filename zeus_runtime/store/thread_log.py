"""The append-only thread log: every message of every session, once, in order."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import (
    ColumnElement,
    Connection,
    Insert,
    Table,
    and_,
    bindparam,
    delete,
    insert,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError

from zeus_runtime.errors import RunError, UsageError
from zeus_runtime.store import schema
from zeus_runtime.store.database import Database
from zeus_runtime.store.handles import note_files
from zeus_runtime.store.listing import SessionInfo as SessionInfo
from zeus_runtime.store.listing import children, list_sessions, one_session
from zeus_runtime.store.packing import drop_rows
from zeus_runtime.store.snapshots import take_snapshot
from zeus_runtime.store.tables import ArchiveRow, EditRow, MessageRow, StepRow, TextRow, ThreadRow

_thread = ThreadRow.__table__  # type: ignore[attr-defined]
_message = MessageRow.__table__  # type: ignore[attr-defined]
_edit = EditRow.__table__  # type: ignore[attr-defined]
_step = StepRow.__table__  # type: ignore[attr-defined]
_text = TextRow.__table__  # type: ignore[attr-defined]
_archive = ArchiveRow.__table__  # type: ignore[attr-defined]

T = TypeVar("T")

TITLE_CHARACTERS = 80


@dataclass(frozen=True)
class Thread:
    """A session's place in the log."""

    key: int
    session: str


@dataclass(frozen=True)
class LogEntry:
    """One message as it is stored; ``payload`` is JSON text."""

    seq: int
    id: str
    payload: str
    created_ms: int


@dataclass(frozen=True)
class StepEntry:
    """One entry of the ledger as it is stored.

    Args:
        number: counts from 1 within the thread.
        seq: the last message the call knew of.
        payload: JSON text.
        texts: digest to text of what the entry refers to and the store may not have yet; empty when read.
    """

    number: int
    seq: int
    payload: str
    created_ms: int = 0
    texts: Mapping[str, str] = field(default_factory=dict)


class LogConflictError(RunError):
    """Another process wrote to the same place of the same thread, or has taken its session since."""

    code = "session_conflict"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class ThreadLog:
    """Reads and appends; nothing here changes or removes a message but deleting its whole session.

    While a session is claimed (``Database.claim``), the claim's first transaction raises the thread's epoch, before it
    reads anything, and what is appended is appended in that epoch: a process that lost its claim without knowing can
    neither fork the thread nor its edits or ledger. Who claims nothing is only kept from places that are taken.

    Args:
        database: where the tables are.
        now_ms: the clock, UTC milliseconds.
    """

    def __init__(self, database: Database, *, now_ms: Callable[[], int] = _now_ms) -> None:
        self.database = database
        self.now_ms = now_ms

    async def create_tables(self) -> None:
        """See to it that the database has the tables of this program; ``schema.ready`` says how and what it raises."""
        await schema.ready(self.database)

    async def open(self, session: str, *, agent: str, title: str = "") -> Thread:
        """The thread of ``session``, made if it is new.

        Raises:
            UsageError: it is archived.
        """

        def work(connection: Connection) -> Thread:
            key = _key(connection, session)
            if key is None:
                now = self.now_ms()
                row = insert(_thread).values(
                    session=session,
                    agent=agent,
                    created_ms=now,
                    updated_ms=now,
                    title=_storable(title[:TITLE_CHARACTERS]),
                )
                connection.execute(row)
                key = connection.execute(
                    select(_thread.c.key).where(_thread.c.session == session)
                ).scalar_one()
            return Thread(int(key), session)

        return await self.database.run(work)

    async def find(self, session: str, *, archived: bool = False) -> Thread:
        """The thread of ``session``.

        Args:
            archived: whether it may be archived.

        Raises:
            UsageError: there is no such session, or it is archived.
        """

        def work(connection: Connection) -> int | None:
            if not session.isprintable():
                return None
            return _key(connection, session, archived=archived)

        key = await self.database.run(work)
        if key is None:
            raise UsageError(
                f"there is no session {session!r}", remedy="`zeus sessions list` shows those there are."
            )
        return Thread(key, session)

    async def append(
        self,
        thread: Thread,
        seq: int,
        message_id: str,
        payload: str,
        *,
        step: StepEntry | None = None,
        begins: str | None = None,
    ) -> int:
        """Write one message at ``seq``, and in the same transaction the ledger's entry of the call that made it.

        Args:
            step: that entry.
            begins: the run whose turn begins with the message: a snapshot is taken.

        Returns:
            when, in UTC milliseconds.

        Raises:
            LogConflictError: the place is taken, or the session is.
        """
        now = self.now_ms()
        row = {"thread": thread.key, "seq": seq, "id": message_id, "created_ms": now, "payload": payload}

        def work(connection: Connection, fence: _Fence | None) -> None:
            _put(connection, _message, row, fence)
            note_files(connection, thread.key, [payload])
            if step is not None:
                self._write_step(connection, thread, step)
            if begins is not None:
                take_snapshot(connection, thread, begins, "turn-start", now)

        await self._append(thread, f"message {seq}", work)
        return now

    async def read(self, thread: Thread, *, after: int = 0) -> Sequence[LogEntry]:
        """The messages with ``seq`` greater than ``after``, in order."""
        query = (
            select(_message.c.seq, _message.c.id, _message.c.payload, _message.c.created_ms)
            .where(_message.c.thread == thread.key, _message.c.seq > after)
            .order_by(_message.c.seq)
        )
        return await self.reading(
            thread, lambda connection: [LogEntry(*row) for row in connection.execute(query)]
        )

    async def append_edit(self, thread: Thread, number: int, at_seq: int, payload: str) -> None:
        """Write the ``number``-th edit of the thread's view.

        Raises:
            LogConflictError: another process wrote it.
        """
        await self.append_edits(thread, number, at_seq, [payload])

    async def read_edits(self, thread: Thread) -> Sequence[str]:
        """The edits' payloads, in the order of admission."""
        query = select(_edit.c.payload).where(_edit.c.thread == thread.key).order_by(_edit.c.number)
        return await self.reading(thread, lambda connection: list(connection.execute(query).scalars()))

    async def append_edits(self, thread: Thread, number: int, at_seq: int, payloads: Sequence[str]) -> None:
        """Write edits of the thread's view, the first as the ``number``-th, all or none.

        Raises:
            LogConflictError: another process wrote one of them.
        """
        rows = [
            {"thread": thread.key, "number": number + offset, "at_seq": at_seq, "payload": payload}
            for offset, payload in enumerate(payloads)
        ]

        def work(connection: Connection, fence: _Fence | None) -> None:
            for row in rows:
                _put(connection, _edit, row, fence)
            note_files(connection, thread.key, payloads)

        await self._append(thread, f"edit {number}", work)

    async def edit_entries(self, thread: Thread) -> Sequence[tuple[int, int, str]]:
        """The edits as (number, the last message it could know, payload), in the order of admission."""
        query = (
            select(_edit.c.number, _edit.c.at_seq, _edit.c.payload)
            .where(_edit.c.thread == thread.key)
            .order_by(_edit.c.number)
        )
        return await self.reading(
            thread, lambda connection: [(row[0], row[1], row[2]) for row in connection.execute(query)]
        )

    async def append_step(self, thread: Thread, step: StepEntry) -> None:
        """Write an entry of the ledger that no message goes with.

        Raises:
            LogConflictError: another process wrote it.
        """
        await self._append(
            thread,
            f"step {step.number}",
            lambda connection, fence: self._write_step(connection, thread, step, fence),
        )

    async def steps(self, thread: Thread, *, last: bool = False) -> Sequence[StepEntry]:
        """The ledger's entries in order, or the last one alone."""
        query = select(_step.c.number, _step.c.seq, _step.c.payload, _step.c.created_ms).where(
            _step.c.thread == thread.key
        )
        query = query.order_by(_step.c.number.desc()).limit(1) if last else query.order_by(_step.c.number)
        return await self.reading(
            thread, lambda connection: [StepEntry(*row) for row in connection.execute(query)]
        )

    async def texts(self, thread: Thread, digests: Sequence[str] | None = None) -> Mapping[str, str]:
        """Digest to text of all that the thread's ledger refers to, or of these."""
        query = select(_text.c.digest, _text.c.text).where(_text.c.thread == thread.key)
        if digests is not None:
            query = query.where(_text.c.digest.in_(digests))
        return await self.reading(
            thread, lambda connection: {row[0]: row[1] for row in connection.execute(query)}
        )

    async def owning(
        self, thread: Thread, what: str, work: Callable[[Connection], T], *, archived: bool = False
    ) -> T:
        """Run ``work`` in one transaction that nobody else writes to the thread meanwhile, in the claim's epoch.

        Args:
            what: the words of an error.
            archived: whether the session may be archived.

        Raises:
            LogConflictError: the claim was lost, or the session is gone.
            UsageError: it is archived.
        """
        if self.database.is_new_claim(thread.session):
            return await self.reading(thread, work, archived=archived)
        epoch = self.database.epoch(thread.session)

        def held(connection: Connection) -> T:
            mine = _here(thread)
            if epoch is not None:
                mine &= _thread.c.epoch == epoch
            # The row's lock comes with the first write, also where a transaction that reads first could not write.
            if connection.execute(update(_thread).where(mine).values(epoch=_thread.c.epoch)).rowcount != 1:
                raise LogConflictError(
                    f"{what} of {thread.session} was not written: another process has taken the session",
                    remedy=_ONE_AT_A_TIME,
                )
            _refuse_archived(connection, thread, archived=archived)
            return work(connection)

        return await self.database.run(held)

    async def reading(self, thread: Thread, work: Callable[[Connection], T], *, archived: bool = False) -> T:
        """Run ``work`` in one transaction; the first one of a claim raises the thread's epoch.

        Args:
            archived: whether the session may be archived when it is claimed.

        Raises:
            LogConflictError: it was deleted before it was claimed.
            UsageError: it was archived before it was claimed.
        """
        if not self.database.is_new_claim(thread.session):
            return await self.database.run(work)

        def first(connection: Connection) -> tuple[int, T]:
            epoch = take(connection, thread)
            _refuse_archived(connection, thread, archived=archived)
            return epoch, work(connection)

        epoch, result = await self.database.run(first)
        self.database.raised(thread.session, epoch)
        return result

    async def _append(
        self, thread: Thread, what: str, work: Callable[[Connection, _Fence | None], None]
    ) -> None:
        """Run ``work`` in one small transaction, in the epoch of the session's claim if it has one.

        Raises:
            LogConflictError: another process wrote there, or took the session.
        """
        if self.database.is_new_claim(thread.session):
            await self.reading(thread, lambda _connection: None)
        epoch = self.database.epoch(thread.session)
        fence = None if epoch is None else _Fence(thread.session, epoch)
        try:
            await self.database.write(lambda connection: work(connection, fence))
        except IntegrityError as error:
            raise LogConflictError(
                f"{what} of {thread.session} was written by another process", remedy=_ONE_AT_A_TIME
            ) from error
        except _Taken:
            raise LogConflictError(
                f"{what} of {thread.session} was not written: another process has taken the session",
                remedy=_ONE_AT_A_TIME,
            ) from None

    def _write_step(
        self, connection: Connection, thread: Thread, step: StepEntry, fence: _Fence | None = None
    ) -> None:
        for digest, text in step.texts.items():
            there = connection.execute(
                select(_text.c.digest).where(_text.c.thread == thread.key, _text.c.digest == digest)
            ).first()
            if there is None:
                row = {"thread": thread.key, "digest": digest, "text": _storable(text)}
                connection.execute(insert(_text), row)
        entry = {
            "thread": thread.key,
            "number": step.number,
            "seq": step.seq,
            "created_ms": self.now_ms(),
            "payload": step.payload,
        }
        _put(connection, _step, entry, fence)

    async def touch(self, thread: Thread) -> None:
        """Mark the thread as used now."""
        await self.database.run(lambda connection: self.touch_in(connection, thread))

    def touch_in(self, connection: Connection, thread: Thread) -> None:
        """Mark the thread as used now, in a transaction that does more."""
        connection.execute(update(_thread).where(_here(thread)).values(updated_ms=self.now_ms()))

    async def sessions(
        self, *, agent: str | None = None, limit: int | None = None, archived: bool = False
    ) -> Sequence[SessionInfo]:
        """The user's sessions, last used first; those that are archived instead of those that are not, if so asked."""
        return await self.database.run(
            lambda connection: list_sessions(connection, agent=agent, limit=limit, archived=archived)
        )

    async def children(self, session: str) -> Sequence[SessionInfo]:
        """The sessions of a session's sub-agents, in the order in which they began."""
        return await self.database.run(lambda connection: children(connection, session))

    async def info(self, thread: Thread) -> SessionInfo:
        """The session as a list shows it."""
        return await self.reading(thread, lambda connection: one_session(connection, thread.key))

    async def delete(self, thread: Thread) -> None:
        """Remove a session and all its messages, archived or not.

        Raises:
            LogConflictError: another process has taken the session.
        """

        def work(connection: Connection) -> None:
            drop_rows(connection, thread.key)
            connection.execute(delete(_archive).where(_archive.c.thread == thread.key))
            connection.execute(delete(_thread).where(_thread.c.key == thread.key))

        await self.owning(thread, "the end", work, archived=True)


_ONE_AT_A_TIME = "One process at a time may run a session; continue it where the other one left it."


class _Taken(Exception):  # noqa: N818 - carries no message to anybody
    """The thread is in another epoch, or gone."""


class _Fence(NamedTuple):
    """In which epoch of which session something may be written."""

    session: str
    epoch: int


def _in_epoch(table: Table) -> Insert:
    """An insert that inserts nothing unless the thread is in the given epoch, and keeps it there until it is committed.

    SQLite has one writer at a time; on a server the row is locked against whoever would raise the epoch meanwhile.
    The session counts too: SQLite gives a deleted thread's key to the next one, whose epochs begin anew.
    """
    names = [column.name for column in table.columns]
    values = {name: bindparam(name, type_=table.c[name].type) for name in names}
    fence = (
        _thread.c.key == values["thread"],
        _thread.c.session == bindparam("in_session"),
        _thread.c.epoch == bindparam("in_epoch"),
    )
    held = select(*values.values()).select_from(_thread).where(*fence).with_for_update(read=True, of=_thread)
    # SQLAlchemy keeps the number of inserted rows only where it is asked to.
    return insert(table).from_select(names, held).execution_options(preserve_rowcount=True)


_PLAIN = {table: insert(table) for table in (_message, _edit, _step)}
_FENCED = {table: _in_epoch(table) for table in (_message, _edit, _step)}


def _put(connection: Connection, table: Table, row: Mapping[str, Any], fence: _Fence | None) -> None:
    if fence is None:
        connection.execute(_PLAIN[table], row)
        return
    here = {"in_session": fence.session, "in_epoch": fence.epoch}
    if connection.execute(_FENCED[table], {**row, **here}).rowcount != 1:
        raise _Taken


def _key(connection: Connection, session: str, *, archived: bool = False) -> int | None:
    query = (
        select(_thread.c.key, _archive.c.archived_ms).outerjoin(_archive).where(_thread.c.session == session)
    )
    found = connection.execute(query).first()
    if found is None:
        return None
    if found[1] is not None and not archived:
        raise _archived(session)
    return int(found[0])


def take(connection: Connection, thread: Thread) -> int:
    """Raise the thread's epoch, in a transaction that does more: whoever had it before can write to it no more."""
    raised = update(_thread).where(_here(thread)).values(epoch=_thread.c.epoch + 1)
    if connection.execute(raised).rowcount != 1:
        raise LogConflictError(
            f"the session {thread.session} was deleted meanwhile", remedy="Begin another one."
        )
    return int(connection.execute(select(_thread.c.epoch).where(_here(thread))).scalar_one())


def _here(thread: Thread) -> ColumnElement[bool]:
    """The thread's own row: SQLite gives a deleted one's key to the next."""
    return and_(_thread.c.key == thread.key, _thread.c.session == thread.session)


def _refuse_archived(connection: Connection, thread: Thread, *, archived: bool) -> None:
    packed = select(_archive.c.thread).where(_archive.c.thread == thread.key)
    if not archived and connection.execute(packed).first() is not None:
        raise _archived(thread.session)


def _archived(session: str) -> UsageError:
    return UsageError(
        f"the session {session} is archived", remedy=f"`zeus sessions restore {session}` brings it back."
    )


def _storable(text: str) -> str:
    """``text`` without NUL, which PostgreSQL cannot store; shown as the symbol for it."""
    return text.replace("\0", "\u2400")
