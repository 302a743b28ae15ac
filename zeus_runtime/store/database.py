"""A database behind one worker thread: transactions are functions, the event loop never blocks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DatabaseError, NoSuchModuleError, OperationalError

from zeus_runtime.errors import MissingError, RunError

T = TypeVar("T")

BUSY_TIMEOUT_SECONDS = 30.0
"""How long a writer waits for another process's transaction."""


def sqlite_file(url: str, directory: Path) -> Path | None:
    """The file that a SQLite URL names, relative paths starting at ``directory``; None for memory or another database."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite" or parsed.database in (None, "", ":memory:"):
        return None
    return (directory / str(parsed.database)).resolve()


class Database:
    """One engine and one worker thread that owns its connection.

    Args:
        url: SQLAlchemy URL.
        directory: where a relative SQLite path starts.

    Raises:
        MissingError: the URL names no usable database.
    """

    def __init__(self, url: str, *, directory: Path) -> None:
        try:
            file = sqlite_file(url, directory)
            if file is not None:
                file.parent.mkdir(parents=True, exist_ok=True)
                self._engine = create_engine(f"sqlite:///{file}", connect_args={"timeout": BUSY_TIMEOUT_SECONDS})
            else:
                self._engine = create_engine(url)
        except (ArgumentError, NoSuchModuleError, ImportError, OSError) as error:
            raise MissingError(
                f"the database {make_safe(url)!r} cannot be used: {error}",
                remedy="Set storage.url to a SQLAlchemy URL such as sqlite:///.zeus/zeus.db, and install its driver.",
            ) from error
        self._is_file = file is not None
        if self._engine.dialect.name == "sqlite":
            event.listen(self._engine, "connect", _prepare_sqlite)
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="zeus-store")
        self._connection: Connection | None = None

    async def run(self, work: Callable[[Connection], T]) -> T:
        """Run ``work`` in one transaction on the worker thread and return what it returns.

        Raises:
            RunError: the database cannot be reached or written. Integrity errors pass through as they are.
        """
        return await asyncio.get_running_loop().run_in_executor(self._worker, self._transact, work)

    def _transact(self, work: Callable[[Connection], T]) -> T:
        try:
            if self._connection is None:
                self._connection = _retry_while_locked(self._engine.connect)
            with self._connection.begin():
                return work(self._connection)
        except OperationalError as error:
            raise RunError(
                f"the database {make_safe(str(self._engine.url))!r} failed: {error.orig}",
                remedy="Check that it is reachable, writable and not full; the run can be taken up again with --continue.",
            ) from error
        except DatabaseError as error:
            if "file is not a database" in str(error.orig) or "malformed" in str(error.orig):
                raise RunError(
                    f"{make_safe(str(self._engine.url))!r} is not a usable database: {error.orig}",
                    remedy="Move the file away, or point storage.url at another one.",
                ) from error
            raise

    async def compact(self) -> None:
        """Give freed space back to the file system (SQLite; nothing elsewhere)."""
        if self._is_file:
            await asyncio.get_running_loop().run_in_executor(self._worker, self._compact)

    def _compact(self) -> None:
        if self._connection is not None:
            raw = self._connection.connection.dbapi_connection
            assert raw is not None
            raw.execute("PRAGMA incremental_vacuum").fetchall()  # type: ignore[attr-defined]
            raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()  # type: ignore[attr-defined]

    async def close(self) -> None:
        """Close the connection and end the worker."""
        await asyncio.get_running_loop().run_in_executor(self._worker, self._close)
        self._worker.shutdown()

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._engine.dispose()

    @property
    def engine(self) -> Engine:
        return self._engine


def make_safe(url: str) -> str:
    """``url`` without its password."""
    try:
        return make_url(url).render_as_string(hide_password=True)
    except ArgumentError:
        return "(unreadable URL)"


def _prepare_sqlite(connection: object, _record: object) -> None:
    execute = connection.execute  # type: ignore[attr-defined]

    def prepare() -> None:
        execute("PRAGMA auto_vacuum=INCREMENTAL")
        execute("PRAGMA journal_mode=WAL")
        execute("PRAGMA synchronous=NORMAL")
        execute("PRAGMA foreign_keys=ON")

    _retry_while_locked(prepare)


def _retry_while_locked(action: Callable[[], T], *, tries: int = 200, wait_seconds: float = 0.05) -> T:
    """Setting WAL and creating tables raise "locked" despite the busy timeout when two processes start together."""
    for _ in range(tries):
        try:
            return action()
        except Exception as error:  # noqa: BLE001 - sqlite3's and SQLAlchemy's errors have no common class here
            if "locked" not in str(error):
                raise
            time.sleep(wait_seconds)
    return action()
