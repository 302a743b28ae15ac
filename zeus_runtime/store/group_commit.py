"""One writer for a database whose sessions are many: their small writes are committed together, on its own thread.

Each write on the event loop holds up every session. With few sessions that costs less than handing it to a thread. With
many, the thread saves CPU too, because many writes share a commit (``benchmarks/concurrent.py``).
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import groupby
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from sqlalchemy.exc import DBAPIError

from zeus_runtime.store.compiled_statements import sqlite_driver

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy import Connection

C = TypeVar("C")
T = TypeVar("T")

_log = logging.getLogger(__name__)

CROWD: Final = 10
"""Sessions in one process from which the writer is cheaper than writing on the event loop."""
_MOST_AT_ONCE: Final = 256
_GATHER_SECONDS: Final = 0.004
"""How long the writer waits for more writes before it commits; a step waits for six commits at most."""


class _QueuedWrite(NamedTuple):
    """A work that waits for its commit, and the future for its result."""

    work: Callable[[Any], Any]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]


class _WriteOutcome(NamedTuple):
    write: _QueuedWrite
    result: Any
    error: BaseException | None = None

    def tell(self) -> None:
        # Runs on the future's own loop, so no task can cancel the future between this look and its result.
        if self.write.future.done():  # cancelled
            return
        if self.error is None:
            self.write.future.set_result(self.result)
        else:
            self.write.future.set_exception(self.error)


class GroupCommit(Generic[C]):
    """The writer of one database in this process.

    Args:
        connect: opens the writer's connection, on its thread.
        transact: runs a function in one transaction of a connection.
        close: closes a connection.
        after: called after each commit, with the connection, outside a transaction. What it raises is only logged.
    """

    def __init__(
        self,
        connect: Callable[[], C],
        transact: Callable[[C, Callable[[C], None]], None],
        close: Callable[[C], None],
        after: Callable[[C], None],
    ) -> None:
        self._connect = connect
        self._transact = transact
        self._close = close
        self._after = after
        self._lock = Lock()
        self._waiting: list[_QueuedWrite] = []
        self._is_draining = False
        self._connection: C | None = None
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="zeus-writer")
        self._sessions = 0
        self._users = 0

    @property
    def is_crowded(self) -> bool:
        """Whether so many sessions are live that their writes belong together."""
        return self._sessions >= CROWD

    def begin(self) -> Callable[[], None]:
        """Count a live session until the returned function is called."""
        self._count(1)
        return lambda: self._count(-1)

    async def commit(self, work: Callable[[C], T]) -> T:
        """Run ``work`` in a transaction with the work of others, and return its result after the commit.

        Args:
            work: may run twice: if a transaction fails, nothing of it is stored, and each of its works runs alone.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        with self._lock:
            self._waiting.append(_QueuedWrite(work, loop, future))
            # Under one lock with the work: the drain that ends has either seen this work, or has cleared the flag
            # before.
            begins, self._is_draining = not self._is_draining, True
        if begins:
            self._worker.submit(self._drain)
        # A caller that is cancelled here does not take its work back: it may be committed already, or soon.
        return await future

    def join(self) -> None:
        """Count a user of the writer, which ``leave`` gives back."""
        self._users += 1

    def leave(self) -> bool:
        """Give the writer back; with its last user it ends. Returns whether it ended."""
        self._users -= 1
        if self._users:
            return False
        # The only worker takes this after the drain, so no write is cut off, and the thread that opened the connection
        # closes it.
        self._worker.submit(self._end).result()
        self._worker.shutdown()
        return True

    def _count(self, change: int) -> None:
        with self._lock:
            self._sessions += change

    def _drain(self) -> None:
        while True:
            # Sleeps without the lock: the event loop that adds a work must never wait for this thread.
            time.sleep(_GATHER_SECONDS)
            with self._lock:
                batch = self._waiting[:_MOST_AT_ONCE]
                del self._waiting[:_MOST_AT_ONCE]
                if not batch:
                    self._is_draining = False
                    return
            # Only a shortcut: a future may be cancelled a moment later. Then its work is written, and `tell` drops the
            # result.
            outcomes = self._written([each for each in batch if not each.future.cancelled()])
            # One wake-up for each loop and not for each write; `groupby` may give a loop twice, which is harmless.
            for loop, told in groupby(outcomes, key=lambda outcome: outcome.write.loop):
                # A loop that is closed waits for nothing any more.
                with suppress(RuntimeError):
                    loop.call_soon_threadsafe(_tell, list(told))
            self._tidy()

    def _written(self, batch: list[_QueuedWrite]) -> list[_WriteOutcome]:
        try:
            results = self._together([write.work for write in batch])
        except BaseException as error:  # noqa: BLE001 - given to those who wait for it; the thread goes on for others
            # After a lost connection it is unknown whether the commit succeeded: nothing may be written twice.
            if len(batch) == 1 or getattr(error, "connection_invalidated", False):
                return [_WriteOutcome(write, None, error) for write in batch]
            # The failed transaction stored nothing, so each work may run alone; only those at fault fail again.
            return [outcome for write in batch for outcome in self._written([write])]
        return [_WriteOutcome(write, result) for write, result in zip(batch, results, strict=True)]

    def _together(self, works: list[Callable[[C], Any]]) -> list[Any]:
        results: list[Any] = []

        def all_of_it(connection: C) -> None:
            # Replaced and not extended: the transaction may run this a second time on a new connection.
            results[:] = [work(connection) for work in works]

        if self._connection is None:
            self._connection = self._connect()
        self._transact(self._connection, all_of_it)
        return results

    def _tidy(self) -> None:
        # Apart from the writes: they are committed, and must not run again if this fails.
        if self._connection is None:
            return
        try:
            self._after(self._connection)
        except Exception:  # noqa: BLE001 - it is logged, and the writes are done
            _log.exception("the database could not be tidied after a commit")

    def _end(self) -> None:
        if self._connection is not None:
            self._close(self._connection)
            self._connection = None


def _tell(outcomes: list[_WriteOutcome]) -> None:
    for outcome in outcomes:
        outcome.tell()


# By the database and not by the agent: agents of one process that share a file share its writer. Users with another
# spelling of a server's URL get another writer, which is slower and not wrong.
_groups: dict[str, GroupCommit[Any]] = {}
_groups_lock = Lock()


def join(database: str, make: Callable[[], GroupCommit[C]]) -> GroupCommit[C]:
    """Return this process's writer of a database, made by the first that asks; ``leave`` gives it back."""
    with _groups_lock:
        group = _groups.get(database)
        if group is None:
            group = _groups[database] = make()
        group.join()
        return group


def leave(database: str) -> None:
    """Give a writer back that ``join`` returned."""
    with _groups_lock:
        # The lock is held while the writer ends: a `join` meanwhile would otherwise get a writer without a thread.
        if _groups[database].leave():
            del _groups[database]


class WriterBeside(NamedTuple):
    """The writer of many sessions' writes to a SQLite file, for code that uses the driver directly.

    Args:
        group: the writer.
    """

    group: GroupCommit[Connection]

    async def commit(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run ``work``, which may run twice, in a transaction with the work of others.

        Raises:
            sqlite3.Error: the database failed.
        """

        def on_driver(connection: Connection) -> T:
            raw = sqlite_driver(connection)
            assert raw is not None
            return work(raw)

        try:
            return await self.group.commit(on_driver)
        except DBAPIError as error:
            raise error.orig if isinstance(error.orig, sqlite3.Error) else error from None


def writer_beside(file: Path) -> WriterBeside | None:
    """The writer of the open database in a SQLite file, if so many sessions are live that they share one."""
    group = _groups.get(str(file))
    return WriterBeside(group) if group is not None and group.is_crowded else None
