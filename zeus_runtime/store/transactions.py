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
from typing import Any, Generic, Protocol, TypeVar

C = TypeVar("C")
T = TypeVar("T")


class Transact(Protocol[C]):
    """Runs ``work`` in one transaction of ``connection``."""

    def __call__(self, connection: C, work: Callable[[C], T], /) -> T: ...


BUSY_TIMEOUT_SECONDS = 30.0
"""How long the worker waits for another process's transaction."""


class Transactions(Generic[C]):
    """One database with two connections: the worker's, which waits, and the event loop's, which does not.

    Args:
        connect: opens a connection that waits up to the given seconds for a lock.
        transact: runs a function in one transaction of a connection.
        close: closes a connection.
        inline: whether small writes may be tried on the event loop (SQLite).
        shared: whether both must be one connection (a database in memory).
    """

    def __init__(
        self,
        connect: Callable[[float], C],
        transact: Transact[C],
        close: Callable[[C], None],
        *,
        inline: bool,
        shared: bool = False,
    ) -> None:
        self._connect = connect
        self._transact = transact
        self._close = close
        self._can_inline = inline
        self._shared = shared
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="zeus-store")
        self._waiting: C | None = None
        self._inline: C | None = None
        self._handed: set[Future[Any]] = set()

    async def run(self, work: Callable[[C], T]) -> T:
        """Run ``work`` in one transaction on the worker thread."""
        if self._shared:
            return self._at_once(work)
        return await self._on_worker(lambda: self._transact(self._worker_connection(), work))

    async def write(self, work: Callable[[C], T]) -> T:
        """Run a small ``work`` in one transaction: at once if the database is not locked, else on the worker thread."""
        if self._can_inline and self._waiting is not None:
            try:
                return self._at_once(work)
            except Exception as error:
                if not is_locked(error):
                    raise
        return await self.run(work)

    async def compute(self, work: Callable[[C], T]) -> T:
        """Run a ``work`` of a few milliseconds that must not run beside other work.

        It runs at once if the database is not locked and the worker is idle, else on the worker thread.
        """
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

    def _at_once(self, work: Callable[[C], T]) -> T:
        return self._transact(self._inline_connection(), work)

    def _inline_connection(self) -> C:
        if self._inline is None:
            self._inline = self._connect(0.0)
        return self._inline

    def _worker_connection(self) -> C:
        if self._waiting is None:
            self._waiting = self._connect(BUSY_TIMEOUT_SECONDS)
        return self._waiting


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
    return action()
