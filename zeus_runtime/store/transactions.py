"""Transactions that do not block the event loop: large ones on a worker thread, small ones in place.

Handing a 40-microsecond insert to a thread and back costs more than twice the insert itself, and a loop makes six of
them per step. So a small write is tried at once on a connection that never waits. If another process holds the lock,
the write goes to the worker thread, whose connection does wait. Checkpoints of the write-ahead log, which wait for the
disk, happen only on the worker.

Work that mostly computes on data in memory is slower on the worker by a seventh, because the other processor's caches
do not hold the data. The event loop would not be freer either, since only one thread at a time runs Python. So such
work runs in place too.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, Generic, Protocol, TypeVar

C = TypeVar("C")
T = TypeVar("T")


class Transact(Protocol[C]):
    """Runs ``work`` in one transaction of ``connection``."""

    def __call__(self, connection: C, work: Callable[[C], T], /) -> T: ...


BUSY_TIMEOUT_SECONDS = 30.0
"""How long the worker waits for another process's transaction."""
LOG_BYTES: Final = 8 << 20
"""The length from which the write-ahead log is moved into the database. Writes go on meanwhile."""
_WRITES_BETWEEN_LOOKS: Final = 16


class Transactions(Generic[C]):
    """One database with two connections: the worker's, which waits, and the event loop's, which does not.

    Args:
        connect: opens a connection that waits up to the given seconds for a lock.
        transact: runs a function in one transaction of a connection.
        close: closes a connection.
        inline: whether small writes may be tried on the event loop (SQLite).
        shared: whether both must be one connection (a database in memory).
        log: SQLite's write-ahead log, kept short by ``shorten``; None without one.
        shorten: moves the log into the database, on the worker's connection.
    """

    def __init__(
        self,
        connect: Callable[[float], C],
        transact: Transact[C],
        close: Callable[[C], None],
        *,
        inline: bool,
        shared: bool = False,
        log: Path | None = None,
        shorten: Callable[[C], None] | None = None,
    ) -> None:
        self._connect = connect
        self._transact = transact
        self._close = close
        self._can_inline = inline
        self._shared = shared
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="zeus-store")
        self._waiting: C | None = None
        self._inline: C | None = None
        # Only the event loop adds; the worker discards. Both are single operations, which the interpreter keeps apart.
        self._handed: set[Future[Any]] = set()
        self._log = log
        self._shorten = shorten
        self._writes = 0
        self._most_log_bytes = LOG_BYTES
        self._shortening: Future[None] | None = None

    @property
    def is_open(self) -> bool:
        """Whether the worker has opened its connection."""
        return self._waiting is not None

    async def run(self, work: Callable[[C], T]) -> T:
        """Run ``work`` in one transaction on the worker thread."""
        if self._shared:
            return self._at_once(work)
        return await self._on_worker(lambda: self._transact(self._worker_connection(), work))

    async def write(self, work: Callable[[C], T]) -> T:
        """Run a small ``work`` in one transaction: at once if the database is not locked, else on the worker thread."""
        # The first work opens the worker's connection: setting up a file may wait for another process, and must not do
        # so here.
        if not self._can_inline or self._waiting is None:
            return await self.run(work)
        try:
            result = self._at_once(work)
        except Exception as error:
            if not is_locked(error):
                raise
            # The refused transaction is rolled back as a whole, so `work` runs from its beginning and writes nothing
            # twice.
            result = await self.run(work)
        self._keep_log_short()
        return result

    async def compute(self, work: Callable[[C], T]) -> T:
        """Run a ``work`` of a few milliseconds that must not run beside other work.

        It runs at once if the database is not locked and the worker is idle, else on the worker thread.
        """
        # No await between this look and the work, so nothing can be handed to the worker meanwhile.
        return await (self.run(work) if self._handed else self.write(work))

    async def outside(self, work: Callable[[C], T]) -> T:
        """Run ``work`` on the worker's connection outside any transaction."""
        if self._shared:
            return work(self._inline_connection())
        return await self._on_worker(lambda: work(self._worker_connection()))

    async def close(self) -> None:
        """Close both connections and end the worker."""

        def end() -> None:
            if self._waiting is not None:
                self._close(self._waiting)
                self._waiting = None

        # The worker has one thread: this comes after all that was handed to it, and then `shutdown` has nothing to wait
        # for.
        await self._on_worker(end)
        self._worker.shutdown()
        if self._inline is not None:
            self._close(self._inline)
            self._inline = None

    async def _on_worker(self, work: Callable[[], T]) -> T:
        handed = self._worker.submit(work)
        self._handed.add(handed)
        # The worker itself reports the end: the caller that waits for it may be cancelled before.
        handed.add_done_callback(self._handed.discard)
        return await asyncio.wrap_future(handed)

    def _keep_log_short(self) -> None:
        """Let the worker shorten a log that has grown; at a run's end alone it would be as long as all the writes."""
        # A look at the future, and no mark that the worker takes away: the worker may end before `submit` returns.
        if (self._shortening is None or self._shortening.done()) and self._is_log_long():
            # Not awaited: a write must not wait for the disk.
            self._shortening = self._worker.submit(self._shortened)

    def _shortened(self) -> None:
        self._shorten_now(self._worker_connection())

    def keep_short(self, connection: C) -> None:
        """Shorten a log that has grown, here and now."""
        if self._is_log_long():
            self._shorten_now(connection)

    def _shorten_now(self, connection: C) -> None:
        assert self._shorten is not None, "a log has a function that shortens it"
        self._shorten(connection)
        # While another process reads, the log stays; trying at every look would stop the writers each time.
        self._most_log_bytes = self._log_bytes() + LOG_BYTES

    def _is_log_long(self) -> bool:
        self._writes += 1
        # The event loop and the shared writer's thread count here without a lock: a lost count only delays a look.
        return not self._writes % _WRITES_BETWEEN_LOOKS and self._log_bytes() > self._most_log_bytes

    def _log_bytes(self) -> int:
        try:
            return 0 if self._log is None else self._log.stat().st_size
        except OSError:
            return 0

    def _at_once(self, work: Callable[[C], T]) -> T:
        # On the event loop, without an await: no other task of the loop can see or disturb half of the transaction.
        return self._transact(self._inline_connection(), work)

    def _inline_connection(self) -> C:
        if self._inline is None:
            self._inline = self._connect(0.0)
        return self._inline

    def _worker_connection(self) -> C:
        if self._waiting is None:
            self._waiting = self._connect(BUSY_TIMEOUT_SECONDS)
        return self._waiting


class PooledTransactions(Generic[C]):
    """A server with several connections, so that the transactions of different sessions do not wait for each other.

    Work that uses data of one thread only does not belong here. A connection is opened when all others are busy.

    Args:
        connect: opens a connection.
        transact: runs a function in one transaction of a connection, on a new one if it was lost.
        close: closes a connection.
        most: of connections.
    """

    def __init__(
        self, connect: Callable[[], C], transact: Transact[C], close: Callable[[C], None], *, most: int
    ) -> None:
        self._connect = connect
        self._transact = transact
        self._close = close
        self._workers = ThreadPoolExecutor(max_workers=most, thread_name_prefix="zeus-store")
        # The threads need no lock: `pop` and `append` of a list are single operations.
        self._idle: list[C] = []

    async def run(self, work: Callable[[C], T]) -> T:
        """Run ``work`` in one transaction on a worker thread."""
        return await asyncio.wrap_future(self._workers.submit(self._run, work))

    write = run

    async def close(self) -> None:
        """Wait for the transactions, and close all connections."""

        def end() -> None:
            self._workers.shutdown()
            while self._idle:
                self._close(self._idle.pop())

        await asyncio.to_thread(end)

    def _run(self, work: Callable[[C], T]) -> T:
        try:
            # The last one that was used: the others may be idle, and its data is in the caches.
            connection = self._idle.pop()
        except IndexError:
            connection = self._connect()
        try:
            return self._transact(connection, work)
        finally:
            # Also after an error: `transact` has rolled back, and replaces a lost connection when it is used again.
            self._idle.append(connection)


def is_locked(error: BaseException) -> bool:
    """Whether another connection's lock caused the error (the texts of SQLite's SQLITE_BUSY and SQLITE_LOCKED)."""
    return "database is locked" in str(error) or "database table is locked" in str(error)


def retry_while_locked(action: Callable[[], T], *, tries: int = 200, wait_seconds: float = 0.05) -> T:
    """Call ``action`` again while the database is locked.

    Setting WAL and creating tables raise "locked" despite the busy timeout when two processes start together. The
    retries
    end after ``tries * wait_seconds``: an ``action`` that itself waited that long for the lock is not repeated.
    """
    end = time.monotonic() + tries * wait_seconds
    for _ in range(tries):
        try:
            return action()
        except Exception as error:
            if not is_locked(error) or time.monotonic() >= end:
                raise
            time.sleep(wait_seconds)
    # For `tries=0`, and after the last pause: this time the error reaches the caller.
    return action()
