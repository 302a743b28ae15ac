"""The database of an agent: a SQLAlchemy engine whose transactions never block the event loop."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DatabaseError, IntegrityError, NoSuchModuleError
from sqlalchemy.pool import NullPool

from zeus_runtime.errors import MissingError, RunError, UsageError
from zeus_runtime.store.claims import claim
from zeus_runtime.store.transactions import Transactions, retry_while_locked

T = TypeVar("T")


def sqlite_file(url: str, directory: Path) -> Path | None:
    """The file that a SQLite URL names, a relative one under ``directory``; None for memory or another database."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite" or parsed.database in (None, "", ":memory:"):
        return None
    return (directory / str(parsed.database)).resolve()


class Database:
    """One database; every transaction is a function of a connection.

    Args:
        url: SQLAlchemy URL.
        directory: where a relative SQLite path starts.

    Raises:
        MissingError: the URL names no usable database.
    """

    def __init__(self, url: str, *, directory: Path) -> None:
        self._name = without_password(url)
        try:
            file = sqlite_file(url, directory)
            if file is not None:
                make_private(file)
            is_sqlite = make_url(url).get_backend_name() == "sqlite"
            self._file = file
            self._is_file = file is not None
            target = f"sqlite:///{file}" if file is not None else url

            def connect(timeout_seconds: float) -> Connection:
                options = {"timeout": timeout_seconds, "check_same_thread": False} if is_sqlite else {}
                engine = create_engine(target, connect_args=options, poolclass=NullPool)
                if is_sqlite:
                    event.listen(engine, "connect", _prepare_sqlite)
                return retry_while_locked(engine.connect)

            if not is_sqlite:
                create_engine(target, poolclass=NullPool)
        except OSError as error:
            raise MissingError(
                f"the folder of the database {self._name!r} cannot be made: {error.strerror}: {error.filename}",
                remedy="Make it, or set storage.url to another place.",
            ) from error
        except (ArgumentError, NoSuchModuleError, ImportError) as error:
            raise MissingError(
                f"the database {self._name!r} cannot be used: {error}",
                remedy="Set storage.url to a SQLAlchemy URL such as sqlite:///.zeus/zeus.db, and install its driver.",
            ) from error
        self._transactions = Transactions(
            connect,
            _transact,
            Connection.close,
            inline=is_sqlite,
            shared=is_sqlite and not self._is_file,
        )

    def claim(self, session: str) -> Callable[[], None]:
        """Keep other processes, and other agents of this one, from running ``session`` until the claim is given back.

        Between processes this holds for a SQLite file; a database in memory has one process only.

        Returns:
            a function that gives the claim back.

        Raises:
            UsageError: somebody else runs it.
        """
        if self._file is None:
            return lambda: None
        try:
            given_back = claim(self._file.with_name(f"{self._file.name}-{session}.lock"))
        except OSError as error:
            raise RunError(
                f"the folder of the database {self._name!r} cannot be written: {error.strerror}",
                remedy="Make it writable, or set storage.url to another place.",
            ) from error
        if given_back is None:
            raise UsageError(
                f"the session {session} is running elsewhere",
                remedy="Wait for it, stop it there, or use another session.",
            )
        return given_back

    async def run(self, work: Callable[[Connection], T]) -> T:
        """Run ``work`` in one transaction on a worker thread and return what it returns.

        Raises:
            RunError: the database cannot be reached, read or written.
            IntegrityError: SQLAlchemy's, as it is.
        """
        try:
            return await self._transactions.run(work)
        except DatabaseError as error:
            raise self._explained(error) from error

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Like ``run``, for work of a few rows: without a thread where the database is a free SQLite file."""
        try:
            return await self._transactions.write(work)
        except DatabaseError as error:
            raise self._explained(error) from error

    async def checkpoint(self) -> None:
        """Move the write-ahead log into the database (SQLite; nothing elsewhere); the worker waits for the disk."""
        if self._is_file:
            await self._transactions.outside(
                lambda connection: _execute(connection, "PRAGMA wal_checkpoint(PASSIVE)")
            )

    async def compact(self) -> None:
        """Give freed space back to the file system (SQLite; nothing elsewhere)."""
        if self._is_file:
            await self._transactions.outside(_compact)

    async def close(self) -> None:
        """Close all connections."""
        await self._transactions.close()

    def _explained(self, error: DatabaseError) -> Exception:
        if isinstance(error, IntegrityError):
            return error
        return RunError(
            f"the database {self._name!r} failed: {error.orig}",
            remedy="Check that it is a database, reachable, writable and not full; then go on with --continue.",
        )


def make_private(file: Path) -> None:
    """Make a database file that is not there yet, for its owner alone: it holds whole conversations.

    SQLite gives the files beside it (WAL, shared memory) the same permissions. A file that is there is left as it is.
    """
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not file.exists():
        os.close(os.open(file, os.O_CREAT | os.O_WRONLY, 0o600))


def without_password(url: str) -> str:
    """``url`` as it may be shown."""
    try:
        return make_url(url).render_as_string(hide_password=True)
    except ArgumentError:
        return "(unreadable URL)"


def _transact(connection: Connection, work: Callable[[Connection], T]) -> T:
    with connection.begin():
        return work(connection)


def _prepare_sqlite(connection: object, _record: object) -> None:
    execute = connection.execute  # type: ignore[attr-defined]

    def prepare() -> None:
        execute("PRAGMA auto_vacuum=INCREMENTAL")
        execute("PRAGMA journal_mode=WAL")
        execute("PRAGMA synchronous=NORMAL")
        execute("PRAGMA wal_autocheckpoint=0")
        execute("PRAGMA foreign_keys=ON")

    retry_while_locked(prepare)


def _compact(connection: Connection) -> None:
    _execute(connection, "PRAGMA incremental_vacuum")
    _execute(connection, "PRAGMA wal_checkpoint(TRUNCATE)")


def _execute(connection: Connection, statement: str) -> None:
    raw = connection.connection.dbapi_connection
    assert raw is not None
    # A script is stepped to its end; a single statement without columns is stepped once, which frees one page.
    raw.executescript(statement)
