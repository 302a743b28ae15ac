"""The database of an agent: a SQLAlchemy engine whose transactions never block the event loop."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from copy import copy
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError
from sqlalchemy.pool import NullPool

from zeus_runtime.config.sqlite_url import URLS, database_file
from zeus_runtime.errors import BusyError, MissingError, RunError, ZeusError
from zeus_runtime.store.compiled_statements import sqlite_driver
from zeus_runtime.store.database_url import bare_url, without_password
from zeus_runtime.store.group_commit import GroupCommit, join, leave
from zeus_runtime.store.row_security import EVERYONE, NOBODY, Acting, act
from zeus_runtime.store.session_lock import claim
from zeus_runtime.store.transactions import (
    BUSY_TIMEOUT_SECONDS,
    PooledTransactions,
    Transactions,
    retry_while_locked,
)
from zeus_runtime.store.write_ahead_log import compact, move_log, shorten_log
from zeus_runtime.tools.own_folders import beside, own_path

if TYPE_CHECKING:
    from zeus_runtime.store.postgres import Server

T = TypeVar("T")

_log = logging.getLogger(__name__)

_IGNORED: Final = """\
# Sessions, memories and their files are private. The project's configs, prompts, plugins and skills are not.
/*
!/.gitignore
!/configs/
!/prompts/
!/plugins/
!/skills/
"""
"""A ``.gitignore`` for the folder ``.zeus``."""

_OF_SQLITE: Final = ("", "-wal", "-shm", "-journal")
"""The endings of a database's files: its own and those of SQLite's logs."""


def sqlite_file(url: str, directory: Path) -> Path | None:
    """The file of a SQLite URL, relative to ``directory``; None for a database in memory or another database.

    Raises:
        MissingError: the SQLite URL names a host, or no possible file.
        LinkedFolderError: the file is in ``.zeus``, and the path contains a link.
    """
    file = database_file(url, directory)
    return None if file is None else own_path(file).resolve()


class Database:
    """One database; every transaction is a function of a connection.

    Args:
        url: SQLAlchemy URL of a SQLite file or a PostgreSQL database.
        directory: the base of a relative SQLite path.
        is_scratch: whether it is temporary, so that it is not recorded as the user's.
        acting: whose rows the transactions see on PostgreSQL, unless they say it themselves (``row_security``).
        connections: on PostgreSQL, how many transactions run at a time at most. With more than one, ``compute`` and
            ``outside`` are not for this database.

    Raises:
        MissingError: the URL does not name a usable database.
    """

    def __init__(
        self,
        url: str,
        *,
        directory: Path,
        is_scratch: bool = False,
        acting: Acting = NOBODY,
        connections: int = 1,
    ) -> None:
        self.name: Final = without_password(url)
        self._acting = acting
        self._origin = self
        # By session: None from the claim until its first transaction has raised the epoch. A copy by `for_everyone`
        # shares it.
        self._held: dict[str, int | None] = {}
        # The locks of a database in memory.
        self._locked: set[str] = set()
        self._server: Server | None = None
        self._opened: tuple[int, int] | None = None
        self._group: GroupCommit[Connection] | None = None
        self._pool: PooledTransactions[Connection] | None = None
        self.file: Final = self._private_file(url, directory, make_file if is_scratch else make_private)
        if _backend(url) == "postgresql":
            from zeus_runtime.store.postgres import Server

            server = self._server = Server(url, self.name, acting)
            self._transactions = Transactions(
                lambda _timeout_seconds: server.connect(), server.transact, Connection.close, inline=False
            )
            self._pool = (
                PooledTransactions(server.connect, server.transact, Connection.close, most=connections)
                if connections > 1
                else None
            )
            # With the password: two users of one server have different rights, so they must not share a writer.
            self._key = url
            # Another `Server`, which has no user: each work says for whom it writes (`_said`).
            self._make_group = lambda: _group_on_server(Server(url, self.name))
            return

        def connect(timeout_seconds: float) -> Connection:
            connection = _connect_sqlite(self.file, timeout_seconds)
            self._check_file()
            return connection

        def transact(connection: Connection, work: Callable[[Connection], T]) -> T:
            def checked(connection: Connection) -> T:
                # First the work, then the check, then the commit: a file that was replaced during the work is noticed
                # too.
                result = work(connection)
                self._check_file()
                return result

            return _transact(connection, checked)

        self._transactions = Transactions(
            connect,
            transact,
            Connection.close,
            inline=True,
            shared=self.file is None,
            log=None if self.file is None else self.file.with_name(f"{self.file.name}-wal"),
            shorten=shorten_log,
        )
        self._key = str(self.file)
        self._make_group = lambda: GroupCommit(
            lambda: connect(BUSY_TIMEOUT_SECONDS), transact, Connection.close, self._transactions.keep_short
        )

    @property
    def is_server(self) -> bool:
        """Whether other machines may use it at the same time."""
        return self._server is not None

    @property
    def server(self) -> Server | None:
        """The PostgreSQL server; None for SQLite."""
        return self._server

    @property
    def place(self) -> str:
        """Tells it from other databases; without a password."""
        # By `id()`: two databases in memory are two, although both have the same URL.
        return bare_url(self._key) if self._server is not None else str(self.file or id(self._origin))

    @property
    def is_own(self) -> bool:
        """Whether it cannot be opened a second time, not even by this process: a database in memory."""
        return self.file is None and self._server is None

    def for_everyone(self) -> Database:
        """The same database, whose transactions see every user's rows; it ends with this one."""
        if self._server is None or self._acting == EVERYONE:
            return self
        # Shares connections, claims and the writer with this one; only the user of its transactions differs.
        view = copy(self)
        view._acting = EVERYONE
        return view

    async def claim(self, session: str) -> Callable[[], None]:
        """Keep other processes, and other agents of this one, from running ``session`` until the claim is released.

        SQLite uses a lock file beside the database, a server a lock, a database in memory a set of its own. A holder
        may lose the lock without knowing (a stopped process, a cut connection). Then the next claim raises the
        session's epoch, and the former holder's writes are refused (``fencing``).

        Returns:
            a function that releases the claim.

        Raises:
            BusyError: the session is running elsewhere.
            MissingError, RunError: the lock cannot be obtained.
        """
        # No await follows the lock, so a cancelled caller cannot leave the session claimed.
        given_back = await self._lock(session)
        if given_back is None:
            raise BusyError(
                f"the session {session} is running elsewhere",
                remedy="Wait for it, stop it there, or use another session.",
            )
        self._held[session] = None
        origin = self._origin
        if origin._group is None and not self.is_own:
            origin._group = join(self._key, self._make_group)
        end = origin._group.begin() if origin._group else lambda: None

        def give_back() -> None:
            self._held.pop(session, None)
            end()
            given_back()

        return give_back

    async def hold(self, name: str) -> Callable[[], None] | None:
        """Keep other processes, and other agents of this one, from the work ``name`` until the lock is released.

        Args:
            name: fit for a file's name.

        Returns:
            a function that releases it, or None if it is held elsewhere.

        Raises:
            MissingError, RunError: the lock cannot be obtained.
        """
        return await self._lock(name)

    def is_new_claim(self, session: str) -> bool:
        """Whether ``session`` is claimed here and its epoch is not raised yet."""
        return session in self._held and self._held[session] is None

    def epoch(self, session: str) -> int | None:
        """The epoch in which ``session`` is claimed here; None if it is not claimed, or its epoch is not raised yet."""
        return self._held.get(session)

    def raised(self, session: str, epoch: int) -> None:
        """Remember the epoch to which a claim raised its session."""
        if session in self._held:
            self._held[session] = epoch

    async def _lock(self, session: str) -> Callable[[], None] | None:
        if self._server is not None:
            claiming = asyncio.ensure_future(asyncio.to_thread(self._server.claim, session))
            try:
                return await asyncio.shield(claiming)
            except asyncio.CancelledError:
                # The thread makes the claim all the same, and its connection keeps it for the other sessions' sake.
                claiming.add_done_callback(_give_back_unused)
                raise
            except DBAPIError as error:
                raise self._server.explained(error) from error
        if self.file is None:
            if session in self._locked:
                return None
            self._locked.add(session)
            return lambda: self._locked.discard(session)
        try:
            # On the event loop: this lock is taken at once or not at all.
            return claim(self.file.with_name(f"{self.file.name}-{session}.lock"))
        except OSError as error:
            raise RunError(
                f"the folder of the database {self.name!r} cannot be written: {error.strerror}",
                remedy="Make it writable, or set storage.url to another place.",
            ) from error

    def _private_file(self, url: str, directory: Path, make: Callable[[Path], None]) -> Path | None:
        file = None
        try:
            file = sqlite_file(url, directory)
            if file is not None:
                make(file)
            backend = _backend(url)
        except OSError as error:
            raise MissingError(
                f"the folder of the database {self.name!r} cannot be made: {error.strerror}: {error.filename}",
                remedy="Make it, or set storage.url to another place.",
            ) from error
        except sqlite3.Error as error:
            raise self._told(error, file) from error
        except (ArgumentError, ValueError) as error:
            raise MissingError(f"the database {self.name!r} cannot be used: {error}", remedy=URLS) from error
        if backend not in ("sqlite", "postgresql"):
            raise MissingError(
                f"the database {self.name!r} cannot be used: {backend} is unknown", remedy=URLS
            )
        return file

    async def run(self, work: Callable[[Connection], T]) -> T:
        """Run ``work`` in one transaction on a worker thread and return its result.

        Raises:
            RunError: the database cannot be reached, read or written.
            IntegrityError: SQLAlchemy's, unchanged.
        """
        try:
            return await (self._pool or self._transactions).run(self._viewed(work))
        except DBAPIError as error:
            raise self._explained(error) from error

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Like ``run``, for a few rows: without a thread if the database is a SQLite file that is not locked."""
        try:
            return await (self._pool or self._transactions).write(self._viewed(work))
        except DBAPIError as error:
            raise self._explained(error) from error

    async def append(self, work: Callable[[Connection], T]) -> T:
        """Like ``write``; where many sessions are live, their work is committed together.

        Args:
            work: may run twice; of all that it does, only what is committed counts.
        """
        # Read once: `close` may clear it at any await, and the work must then still go to the writer that it looked at.
        group = self._origin._group
        if group is None or not group.is_crowded:
            return await self.write(work)
        try:
            # The writer's transactions are for many users; each work says whose it is.
            return await group.commit(self._said(work))
        except DBAPIError as error:
            raise self._explained(error) from error

    async def compute(self, work: Callable[[Connection], T]) -> T:
        """Like ``write``, for work that also uses data of one thread only: it never runs beside other work."""
        try:
            return await self._transactions.compute(self._viewed(work))
        except DBAPIError as error:
            raise self._explained(error) from error

    async def checkpoint(self) -> None:
        """Move the write-ahead log into the database (SQLite only); the worker thread waits for the disk.

        A full disk is only logged: committed data is safe, and is read from the write-ahead log.
        """
        if self.file is not None:
            await self.outside(move_log)

    async def compact(self) -> None:
        """Return freed space to the file system (SQLite only).

        A full disk is only logged, as in ``checkpoint``: deleted data is deleted.
        """
        if self.file is not None:
            await self.outside(compact)

    async def outside(self, work: Callable[[Connection], None]) -> None:
        """Run ``work`` on the worker thread outside any transaction.

        Raises:
            RunError: the database cannot be reached, read or written.
        """
        try:
            await self._transactions.outside(work)
        except DBAPIError as error:
            raise self._explained(error) from error
        except sqlite3.Error as error:
            raise self._told(error, self.file) from error

    def _viewed(self, work: Callable[[Connection], T]) -> Callable[[Connection], T]:
        # The connection's transactions begin on behalf of the one for whom it was opened.
        return work if self._acting == self._origin._acting else self._said(work)

    def _said(self, work: Callable[[Connection], T]) -> Callable[[Connection], T]:
        if self._server is None:
            return work

        def said(connection: Connection) -> T:
            act(connection, self._acting)
            return work(connection)

        return said

    async def close(self) -> None:
        """Close all connections."""
        if self._group is not None:
            # First, so that an append that comes now writes by itself and not to a writer that ends.
            self._group = None
            # On a thread: it waits for the writer's last transaction, whose results this event loop has to pass on.
            await asyncio.to_thread(leave, self._key)
        await self._transactions.close()
        if self._pool is not None:
            await self._pool.close()
        if self._server is not None:
            await asyncio.to_thread(self._server.close)

    def _check_file(self) -> None:
        """Check that the file is the one that was opened: SQLite writes on to a deleted file, and all of it is lost.

        Raises:
            MissingError: it is another file; the transaction is not committed.
        """
        if self.file is None:
            return
        try:
            status = self.file.stat()
            there = status.st_dev, status.st_ino
        except OSError:
            there = None
        if self._opened is None:
            self._opened = there
        if there is None or there != self._opened:
            raise MissingError(
                f"the database {self.name!r} was deleted or replaced while it was in use",
                remedy="Put it back, or begin anew: what was written since is not kept.",
            )

    def _explained(self, error: DBAPIError) -> Exception:
        if isinstance(error, IntegrityError):
            return error
        if self._server is not None:
            return self._server.explained(error)
        return self._told(error.orig, self.file)

    def _told(self, error: BaseException | None, file: Path | None) -> ZeusError:
        from zeus_runtime.store.sqlite_errors import explained_sqlite_error

        return explained_sqlite_error(error, f"the database {self.name!r}", file)


def _give_back_unused(claiming: asyncio.Future[Callable[[], None] | None]) -> None:
    if not claiming.cancelled() and claiming.exception() is None and (give_back := claiming.result()):
        give_back()


def make_private(file: Path) -> None:
    """Make a new database that only its owner can read, and record it as this user's (docs/explanation/trust.md).

    The config's check decides whether an existing one may be used. If a digest in ``ZEUS_TRUST`` allows it, it is
    recorded too.

    Raises:
        MissingError: a rollback journal is beside it (``trust.databases.refuse_journal``), or as ``adopt_given``.
        LinkedFolderError, OSError: as ``make_file``.
    """
    from zeus_runtime.trust.databases import adopt_given, make, refuse_journal
    from zeus_runtime.trust.decision import records_folder

    make_file(file)
    if file.stat().st_size:
        # First: a digest also allows the journal that came with a database.
        adopt_given(records_folder(os.environ), file.resolve())
        refuse_journal(file.resolve())
        return
    if file.parent.name == ".zeus":
        _leave_out_of_git(file.parent)
    # The process's own environment: another one could contain a project's values.
    if not make(records_folder(os.environ), file.resolve()):
        _log.warning(
            "the database %s is new and cannot be recorded as yours, so the next start asks for it: set XDG_STATE_HOME"
            " to a folder that can be written, or ZEUS_TRUST",
            file,
        )


def make_state_folder(folder: Path) -> None:
    """Make the folder ``.zeus``, outside the project's repository.

    Raises:
        LinkedFolderError: it is a link.
    """
    own_path(folder).mkdir(exist_ok=True)
    _leave_out_of_git(folder)


def _leave_out_of_git(folder: Path) -> None:
    """Keep sessions and their files out of the project's repository; a list that is there stays as it is."""
    with suppress(FileExistsError), (folder / ".gitignore").open("x", encoding="utf-8") as ignored:
        ignored.write(_IGNORED)


def make_file(file: Path) -> None:
    """Make a file that does not exist yet, for its owner alone: it holds whole conversations.

    SQLite gives the files beside it (WAL, shared memory) the same permissions.

    Args:
        file: with links resolved.

    Raises:
        LinkedFolderError: it is a link, or one of the files that SQLite makes beside it is.
        OSError: it cannot be made.
    """
    for ending in _OF_SQLITE:
        beside(file, ending)
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not file.exists():
        # Without O_EXCL: a file that another process of this user makes in between is as private.
        flags = os.O_CREAT | os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0)
        os.close(os.open(file, flags, 0o600))


def _backend(url: str) -> str:
    """``sqlite``, ``postgresql`` or another name; PostgreSQL with another driver counts as another."""
    name = make_url(url).drivername
    if name in ("postgresql", "postgres", "postgresql+psycopg"):
        return "postgresql"
    return "sqlite" if name.partition("+")[0] == "sqlite" else name


# One engine opens all files, and its `creator` takes no arguments: this variable says which file. A context variable,
# because threads open connections at the same time.
_opening: Final[ContextVar[Callable[[], sqlite3.Connection]]] = ContextVar("_opening")


@cache
def _sqlite_engine() -> Engine:
    """The engine of all SQLite databases: a statement is compiled once per process, not once per connection."""
    return create_engine("sqlite://", creator=lambda: _opening.get()(), poolclass=NullPool)


def _connect_sqlite(file: Path | None, timeout_seconds: float) -> Connection:
    # The event loop's connection never waits: if the database is locked, the worker's connection does.
    tries = _TRIES if timeout_seconds else 0

    def opened() -> sqlite3.Connection:
        if file is not None:
            from zeus_runtime.trust.databases import refuse_journal

            refuse_journal(file)
        # The path, not a URL, which would be parsed a second time and could name another file than the checked one.
        name = ":memory:" if file is None else file
        raw = sqlite3.connect(name, timeout=timeout_seconds, check_same_thread=False)
        try:
            _prepare_sqlite(raw, tries)
        except BaseException:
            raw.close()
            raise
        return raw

    token = _opening.set(opened)
    try:
        return retry_while_locked(_sqlite_engine().connect, tries=tries)
    finally:
        _opening.reset(token)


def _group_on_server(server: Server) -> GroupCommit[Connection]:
    return GroupCommit(server.connect, server.transact, Connection.close, lambda _connection: None)


def alone(connection: Connection, name: str) -> None:
    """Keep other transactions that call this with ``name`` waiting until this one ends; to be called first in it."""
    if connection.dialect.name == "sqlite":
        # Possible, because Python's driver begins a transaction by itself only before the first write.
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    else:
        # The lock has a 64-bit number. Two names with one number would only wait for each other.
        number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], signed=True)
        connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": number})


def _transact(connection: Connection, work: Callable[[Connection], T]) -> T:
    """Run ``work``; errors from SQLite's driver, which some statements use directly, become SQLAlchemy's."""
    try:
        with connection.begin():
            try:
                return work(connection)
            except sqlite3.Error as error:
                raise DBAPIError.instance(
                    None, None, error, sqlite3.Error, dialect=connection.dialect
                ) from error
    except BaseException:
        _end(connection)
        raise


def _end(connection: Connection) -> None:
    """End a transaction that SQLite keeps open after a refused commit, and that SQLAlchemy believes ended."""
    raw = sqlite_driver(connection)
    if raw is not None and raw.in_transaction:
        raw.rollback()


_TRIES: Final = 200
"""Tries of a connection that may wait, 0.05 seconds apart: setting WAL ignores the busy timeout."""


def _prepare_sqlite(connection: sqlite3.Connection, tries: int) -> None:
    def prepare() -> None:
        if not connection.execute("PRAGMA page_count").fetchone()[0]:
            # Only for a new database: it takes the write lock, and has no effect on an existing one.
            connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
        connection.execute("PRAGMA journal_mode=WAL")
        # In WAL mode a killed process loses nothing; a power failure may lose the last commits, and never damages the
        # file.
        connection.execute("PRAGMA synchronous=NORMAL")
        # A checkpoint waits for the disk, so it is made on the worker thread only (`checkpoint`, `compact`).
        connection.execute("PRAGMA wal_autocheckpoint=0")
        # Off by default in SQLite, and a setting of the connection, not of the file.
        connection.execute("PRAGMA foreign_keys=ON")

    retry_while_locked(prepare, tries=tries)
