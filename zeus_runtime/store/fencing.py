"""Transactions in the epoch of a session's claim: a process that unknowingly lost the claim can no longer write.

While a session is claimed (``Database.claim``), the claim's first transaction raises the session's epoch before it
reads anything, and later writes happen in that epoch. So a process that was stopped, or whose connection was cut,
cannot fork the session, its edits or its ledger. Without a claim, only the primary key prevents overwriting.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Connection,
    Insert,
    Select,
    Table,
    bindparam,
    cast,
    func,
    insert,
    select,
    true,
    update,
)
from sqlalchemy.exc import IntegrityError

from zeus_runtime.store.compiled_statements import Prepared
from zeus_runtime.store.database import Database
from zeus_runtime.store.session_lock import LogConflictError, claim_lost
from zeus_runtime.store.tables import EDIT, EVENT, MESSAGE, NOTE, STEP, TEXT, THREAD
from zeus_runtime.store.threads import HERE, Thread, of_row, refuse_archived

T = TypeVar("T")


class Fence(NamedTuple):
    """The session and the epoch in which a write is allowed."""

    session: str
    epoch: int


async def reading(
    database: Database, thread: Thread, work: Callable[[Connection], T], *, archived: bool = False
) -> T:
    """Run ``work`` in one transaction; the first transaction of a claim raises the session's epoch.

    Args:
        archived: whether the session may be archived when it is claimed.

    Raises:
        LogConflictError: it was deleted before it was claimed.
        UsageError: it was archived before it was claimed.
    """
    if not database.is_new_claim(thread.session):
        return await database.run(work)

    def first(connection: Connection) -> tuple[int, T]:
        epoch = take(connection, thread)
        if not archived:
            refuse_archived(connection, thread)
        return epoch, work(connection)

    # Known here only after the commit: after an error or a cancellation the next transaction raises the epoch once
    # more, which is harmless.
    epoch, result = await database.run(first)
    database.raised(thread.session, epoch)
    return result


async def owning(
    database: Database, thread: Thread, what: str, work: Callable[[Connection], T], *, archived: bool = False
) -> T:
    """Run ``work`` in one transaction in the claim's epoch; meanwhile no other transaction can write to the session.

    Args:
        what: the object that is written, for an error's message.
        archived: whether the session may be archived.

    Raises:
        LogConflictError: the claim was lost, or the session was deleted.
        UsageError: it is archived.
    """
    if database.is_new_claim(thread.session):
        return await reading(database, thread, work, archived=archived)
    # Read before the work is handed over: a claim that is lost and taken anew meanwhile has another epoch.
    hold = _holding(thread, database.epoch(thread.session), what)

    def held(connection: Connection) -> T:
        # Before the other rows: from here on no other process can archive the session or claim it until the commit.
        hold(connection)
        if not archived:
            refuse_archived(connection, thread)
        return work(connection)

    return await database.run(held)


async def holding(database: Database, thread: Thread, what: str) -> Callable[[Connection], None]:
    """A function that begins another part's transaction, so that it is in the claim's epoch or not at all.

    Called with the connection, it raises LogConflictError if the claim was lost or the session was deleted. Otherwise
    the session cannot be claimed again before the transaction ends.

    Args:
        what: the object that is written, for that error's message.
    """
    if database.is_new_claim(thread.session):
        await reading(database, thread, lambda _connection: None, archived=True)
    return _holding(thread, database.epoch(thread.session), what)


def _holding(thread: Thread, epoch: int | None, what: str) -> Callable[[Connection], None]:
    mine = of_row(thread)
    statement = _HELD
    if epoch is not None:
        mine["held_epoch"] = epoch
        statement = _HELD_IN_EPOCH

    def hold(connection: Connection) -> None:
        # The first write takes the row's lock; a transaction that only read first might not get it.
        if statement.changed(connection, mine) != 1:
            raise claim_lost(what, thread.session)

    return hold


async def appending(
    database: Database, thread: Thread, what: str, work: Callable[[Connection, Fence | None], None]
) -> None:
    """Run ``work``, which ``put``s a few rows, in one small transaction, in the claim's epoch if there is a claim.

    Raises:
        LogConflictError: another process wrote there, or has claimed the session.
    """
    if database.is_new_claim(thread.session):
        await reading(database, thread, lambda _connection: None)
    epoch = database.epoch(thread.session)
    fence = None if epoch is None else Fence(thread.session, epoch)
    try:
        await database.append(lambda connection: work(connection, fence))
    except IntegrityError as error:
        raise LogConflictError(f"{what} of {thread.session} was written by another process") from error
    except _Taken:
        # The INSERT found no session in this epoch, so it inserted nothing, and all is rolled back.
        raise claim_lost(what, thread.session) from None


def put(connection: Connection, table: Table, row: Mapping[str, Any], fence: Fence | None) -> None:
    """Insert a row of ``MESSAGE``, ``EDIT``, ``STEP``, ``NOTE`` or ``EVENT``, inside ``appending``."""
    if fence is None:
        _PLAIN[table].changed(connection, row)
        return
    within = {"in_session": fence.session, "in_epoch": fence.epoch}
    if _FENCED[table].changed(connection, {**row, **within}) != 1:
        raise _Taken


def put_all(
    connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]], fence: Fence | None
) -> None:
    """``put`` for rows of ``EVENT`` of one session; a server gets all of them in one statement."""
    # On SQLite a statement costs no round trip, and it has no arrays.
    if len(rows) < 2 or connection.dialect.name == "sqlite":
        for row in rows:
            put(connection, table, row, fence)
        return
    values = _columns(table, rows)
    statement = _EVENT_ARRAYS
    if fence is not None:
        statement = _FENCED_EVENT_ARRAYS
        values |= {"in_session": fence.session, "in_epoch": fence.epoch, "in_thread": rows[0]["thread"]}
    # All rows have one thread and one epoch, so the fence lets through all or none.
    if statement.changed(connection, values) != len(rows):
        raise _Taken


def put_new_texts(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert those rows of ``TEXT`` that are not there, in a transaction that also ``put``s a row."""
    if connection.dialect.name == "sqlite":
        for row in rows:
            _NEW_TEXT.changed(connection, row)
    else:
        _new_text_arrays().changed(connection, _columns(TEXT, rows))


def _columns(table: Table, rows: Sequence[Mapping[str, Any]]) -> dict[str, object]:
    return {column.name: [row[column.name] for row in rows] for column in table.columns}


def take(connection: Connection, thread: Thread) -> int:
    """Raise the session's epoch inside a larger transaction: its former holder can no longer write.

    Raises:
        LogConflictError: the session was deleted.
    """
    found = _RAISED.rows(connection, of_row(thread))
    if not found:
        raise LogConflictError(
            f"the session {thread.session} was deleted meanwhile", remedy="Begin another one."
        )
    return int(found[0][0])


class _Taken(Exception):  # noqa: N818 - internal, without a message
    """The session is in another epoch, or deleted."""


def _in_epoch(table: Table) -> Insert:
    """An INSERT that inserts only if the session is in the given epoch, and keeps that epoch until the commit.

    SQLite has one writer at a time; a server locks the row against a transaction that would raise the epoch. The
    session's id is compared too, because SQLite gives a deleted session's key to the next one.
    """
    names = [column.name for column in table.columns]
    values = {name: bindparam(name, type_=table.c[name].type) for name in names}
    held = select(*values.values()).select_from(THREAD).where(*_in_fence(values["thread"]))
    # Shared: writes of one epoch do not wait for each other, but a transaction that raises the epoch waits for their
    # commits.
    held = held.with_for_update(read=True, of=THREAD)
    # SQLAlchemy counts inserted rows only on request.
    return insert(table).from_select(names, held).execution_options(preserve_rowcount=True)


def _in_fence(thread: ColumnElement[Any]) -> tuple[ColumnElement[bool], ...]:
    return (
        THREAD.c.key == thread,
        THREAD.c.session == bindparam("in_session"),
        THREAD.c.epoch == bindparam("in_epoch"),
    )


def _rows_of_arrays(table: Table, *, fenced: bool = False) -> tuple[list[str], Select[Any]]:
    """The columns of a table, and rows that are given as an array for each of them (PostgreSQL)."""
    names = [column.name for column in table.columns]
    kinds = {name: ARRAY(table.c[name].type) for name in names}
    arrays = (cast(bindparam(name, type_=kind), kind) for name, kind in kinds.items())
    given = func.unnest(*arrays).table_valued(*names, name="given").render_derived()
    rows = select(*(given.c[name] for name in names))
    if fenced:
        rows = rows.select_from(THREAD.join(given, true())).where(*_in_fence(bindparam("in_thread")))
        rows = rows.with_for_update(read=True, of=THREAD)
    return names, rows


# An UPDATE that changes nothing, because it locks the row in both databases: SQLite has no SELECT … FOR UPDATE.
_HELD = Prepared(update(THREAD).where(HERE).values(epoch=THREAD.c.epoch))
_HELD_IN_EPOCH = Prepared(
    update(THREAD).where(HERE, THREAD.c.epoch == bindparam("held_epoch")).values(epoch=THREAD.c.epoch)
)
_RAISED = Prepared(update(THREAD).where(HERE).values(epoch=THREAD.c.epoch + 1).returning(THREAD.c.epoch))
_PLAIN = {table: Prepared(insert(table)) for table in (MESSAGE, EDIT, STEP, NOTE, EVENT)}
_FENCED = {table: Prepared(_in_epoch(table)) for table in (MESSAGE, EDIT, STEP, NOTE, EVENT)}
_EVENT_ARRAYS = Prepared(insert(EVENT).from_select(*_rows_of_arrays(EVENT)))
_FENCED_EVENT_ARRAYS = Prepared(insert(EVENT).from_select(*_rows_of_arrays(EVENT, fenced=True)))
_NEW_TEXT = Prepared(insert(TEXT).prefix_with("OR IGNORE"))


@lru_cache(maxsize=1)
def _new_text_arrays() -> Prepared:
    from sqlalchemy.dialects.postgresql import (
        insert as server_insert,
    )  # takes 60 ms, and SQLite needs none of it

    return Prepared(server_insert(TEXT).from_select(*_rows_of_arrays(TEXT)).on_conflict_do_nothing())
