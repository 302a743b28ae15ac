"""The specifics of a PostgreSQL server: its connections, which may drop, its locks, and the meaning of its errors."""

from __future__ import annotations

import hashlib
import re
import select
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Lock, Thread
from typing import Any, Final, TypeVar

from sqlalchemy import URL, Connection, CursorResult, create_engine, event, make_url, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from zeus_runtime.cutting import unwrapped
from zeus_runtime.errors import MissingError, RunError, ZeusError
from zeus_runtime.store.compiled_statements import server_driver
from zeus_runtime.store.row_security import NOBODY, Acting, begin_acting
from zeus_runtime.trust.parts import is_here

T = TypeVar("T")

IDLE_SECONDS: Final = 30.0
"""A connection that was idle for longer is tested before use: networks drop idle connections silently."""

_PATIENCE_SECONDS: Final = 0.1
"""How long the release of a claim waits for another claim that is being made, and then for the server."""

DEFAULTS: Final[dict[str, Any]] = {
    "application_name": "zeus",
    # Seconds; `tcp_user_timeout` is in milliseconds, and ends a connection that gets no acknowledgement for its data.
    "connect_timeout": 10,
    "keepalives_idle": 60,
    "tcp_user_timeout": 30_000,
    # A statement that waits for ever would block the run; a stopped process would hold its locks.
    "options": "-c statement_timeout=60s -c lock_timeout=30s -c idle_in_transaction_session_timeout=60s",
}
"""Defaults that a URL's query may override; ``options=none`` sends none, for a pgbouncer that refuses them."""


def driver_url(url: str) -> URL:
    """``url`` for SQLAlchemy, with psycopg 3 as its driver."""
    return make_url(url).set(drivername="postgresql+psycopg")


def connection_arguments(url: str) -> dict[str, Any]:
    """The keyword arguments with which psycopg connects to ``url``.

    No statement is prepared on the server by itself: behind pgbouncer the next transaction may use another server
    process, and a prepared plan does not see later settings. ``Server`` permits it for ``Prepared`` statements.

    An address of this machine needs no permission, so neither ``PGHOSTADDR`` nor a service file leads it elsewhere.

    Raises:
        MissingError: psycopg is not installed, or the URL's host is not valid.
    """
    parsed = driver_url(url)
    if "@" in (parsed.host or ""):
        from zeus_runtime.store.database_url import without_password

        raise MissingError(
            f"the database {without_password(url)!r} cannot be used: there is more than one @ before its host",
            remedy="A password with @ : / or % is written percent-encoded in storage.url: %40 is @.",
        )
    try:
        (_, arguments) = parsed.get_dialect()().create_connect_args(parsed)
        import psycopg  # noqa: F401 - what the dialect needs
    except ImportError as error:
        raise MissingError(
            f"PostgreSQL cannot be used: {error}",
            remedy="Install its driver: pip install 'zeus-runtime[postgres]'",
        ) from error
    # The URL's own values win, except for the threshold.
    given = {**DEFAULTS, **arguments, "prepare_threshold": None}
    if is_here(url):
        given["hostaddr"] = ""
    if given["options"] == "none":
        del given["options"]
    return given


class Server:
    """One server; its connections are opened on request and closed on release.

    Args:
        url: as in ``storage.url``.
        name: the URL in a form that may be shown.
        acting: on whose behalf each transaction begins.

    Raises:
        MissingError: psycopg is not installed.
    """

    def __init__(self, url: str, name: str, acting: Acting = NOBODY) -> None:
        self._name = name
        self._acting = acting
        self._password = driver_url(url).password
        self._claims: _Claims | None = None
        self._claiming = Lock()
        self.arguments: Final = connection_arguments(url)
        """Those with which psycopg connects to it."""
        self._engine = create_engine(
            # The URL's options are among the arguments; in the URL, ``none`` would be sent to the server.
            driver_url(url).difference_update_query(["options"]),
            connect_args=self.arguments,
            poolclass=NullPool,
            pool_reset_on_return=None,
            # Saves a query for a type that no table here has.
            use_native_hstore=False,
        )
        self._prepares = True
        event.listen(self._engine, "connect", self._permit_preparing)

    def connect(self) -> Connection:
        """Open the connection for ``transact``."""
        connection = self._engine.connect()
        _heard(connection)
        return connection

    def transact(self, connection: Connection, work: Callable[[Connection], T]) -> T:
        """Run ``work`` in one transaction; on a new connection if the old one was lost.

        If the connection is lost while ``work`` runs, the transaction is lost too, and ``work`` runs again, once; also
        if the server has lost its prepared statements. A connection that is lost during the commit is reported, because
        the commit may have succeeded.
        """
        if not self._is_there(connection):
            connection.invalidate()
        tries = 2
        while True:
            tries -= 1
            committing = False
            try:
                with connection.begin():
                    result = _as_sqlalchemy_has_it(connection, self._begun(work))
                    # Only the commit is left: an error from here on leaves it unknown whether the work is stored.
                    committing = True
                _heard(connection)
                return result
            except DBAPIError as error:
                if committing or not tries or not (error.connection_invalidated or self._unprepared(error)):
                    raise
                if not error.connection_invalidated:
                    # The server process has lost the statements, and the new connection prepares none.
                    connection.invalidate()

    def _begun(self, work: Callable[[Connection], T]) -> Callable[[Connection], T]:
        if self._acting == NOBODY:
            return work

        def transaction(connection: Connection) -> T:
            begin_acting(server_driver(connection), self._acting)
            return work(connection)

        return transaction

    def claim(self, session: str) -> Callable[[], None] | None:
        """Claim a session by a lock that ends with its connection, however that ends.

        All claims are on one connection, because a connection for each would cost more than a turn's writes. Its
        transaction stays open as long as there are claims: behind pgbouncer in transaction mode, a lock outside a
        transaction would stay with a server process that then serves other clients.

        Returns:
            a function that releases the claim, or None if the session is claimed elsewhere.
        """
        key = _lock_key(session)
        with self._claiming:
            # A lock of threads: claims come from `to_thread`, and one connection takes one statement at a time.
            claims, has_it = self._claimed(key)
        if not has_it:
            return None

        def give_back() -> None:
            is_next = self._claiming.acquire(timeout=_PATIENCE_SECONDS)

            def work() -> None:
                if not is_next:
                    self._claiming.acquire()
                try:
                    claims.give_back(key)
                finally:
                    self._claiming.release()

            # Awaited, so that the next process finds the lock free; but if the server does not answer, or another claim
            # waits for it, the event loop must not wait too. A claim that follows waits for `_claiming`.
            releasing = Thread(target=work, name="zeus-claim", daemon=True)
            releasing.start()
            if is_next:
                releasing.join(_PATIENCE_SECONDS)

        return give_back

    def _claimed(self, key: int) -> tuple[_Claims, bool]:
        if self._claims is not None and not self._claims.is_closed:
            try:
                return self._claims, self._claims.take(key)
            except DBAPIError as error:
                # The connection lives and its other claims stay; only this claim has failed.
                if self._claims.undo(error):
                    raise
                # A lost connection has released its claims: whoever lost one cannot write any more (``fencing``).
                self._claims.close()
        self._claims = _Claims(self._engine.connect())
        return self._claims, self._claims.take(key)

    def close(self) -> None:
        """Close the connection of the claims."""
        with self._claiming:
            if self._claims is not None:
                self._claims.close()
                self._claims = None

    def explained(self, error: DBAPIError) -> ZeusError:
        """An error in the user's terms: its cause and a remedy."""
        return self.told(error.orig, is_lost=error.connection_invalidated)

    def told(self, error: BaseException | None, *, is_lost: bool = True) -> ZeusError:
        """psycopg's own error in the user's terms.

        Args:
            is_lost: whether its connection was lost.
        """
        return explained_postgres_error(error, self._name, self._password, is_lost=is_lost)

    def _permit_preparing(self, raw: Any, _record: object) -> None:
        """Let ``Prepared`` statements be planned once for a new connection, if it keeps its server process.

        Planning takes a third of the server's time for a turn. A pooler between us and the server, such as pgbouncer,
        announces a process id of its own invention, and may use another server process for each transaction.
        """
        if not self._prepares:
            return
        # Without a pooler, the greeting and this answer name the same server process.
        (pid,) = raw.execute("SELECT pg_backend_pid()").fetchone()
        raw.rollback()
        # psycopg has begun a transaction for the query.
        if pid == raw.info.backend_pid:
            raw.prepare_threshold = _ON_REQUEST_ONLY
            raw.prepared_max = _KEPT_STATEMENTS

    def _unprepared(self, error: DBAPIError) -> bool:
        """Prepare nothing from now on if ``error`` shows a pooler that was not recognized; whether it does."""
        if getattr(error.orig, "sqlstate", None) not in _LOST_STATEMENTS:
            return False
        self._prepares = False
        return True

    def _is_there(self, connection: Connection) -> bool:
        if connection.invalidated:  # SQLAlchemy opens a new one by itself
            return True
        raw: Any = connection.connection.dbapi_connection
        # Known without asking: psycopg has seen the end already.
        if raw.closed:
            return False
        if not connection_may_be_gone(raw.fileno(), connection.info.get(_HEARD_AT, 0.0)):
            return True
        try:
            raw.execute("SELECT 1")
            raw.rollback()
        except _error_type():
            return False
        return True


_ON_REQUEST_ONLY: Final = sys.maxsize
"""How often psycopg sees a statement before it prepares it unasked."""
_KEPT_STATEMENTS: Final = 300
"""Prepared statements that a connection keeps; a statement counts once for each size of its integers."""
_LOST_STATEMENTS: Final = ("26000", "42P05")
"""A prepared statement is not there, or another is there already: the server process is another one."""


_HEARD_AT: Final = "zeus_heard_at"


def _heard(connection: Connection) -> None:
    """Note that the server answered on this connection just now."""
    connection.info[_HEARD_AT] = time.monotonic()


class _Claims:
    """The claims on one connection, which would take a lock again that it has: so their keys are known here too."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._keys: set[int] = set()
        self.is_closed = False

    def take(self, key: int) -> bool:
        """Take the lock ``key``; whether it was free.

        Raises:
            DBAPIError: it failed; ``undo`` says whether the connection and the other claims are still there.
        """
        if key in self._keys:
            # Raises if the connection, and so the claim that these keys remember, is lost.
            self._connection.execute(_PROBE)
            return False
        # A savepoint for the next claim, in the same message: a transaction that fails without one is over, and its
        # connection may not come back from pgbouncer with its locks.
        savepoint = f"RELEASE SAVEPOINT {_SAVEPOINT}; " if self._keys else ""
        has_it = bool(self._sent(f"{_CLAIM.format(key=key)}; {savepoint}SAVEPOINT {_SAVEPOINT}").one()[0])
        if has_it:
            self._keys.add(key)
        self._end_if_unused()
        return has_it

    def undo(self, error: DBAPIError) -> bool:
        """Undo the statement that failed, so that the other claims stay; False if there are none any more."""
        if error.connection_invalidated or not self._keys:
            return False
        try:
            self._sent(f"ROLLBACK TO SAVEPOINT {_SAVEPOINT}")
        except DBAPIError:
            return False
        return True

    def _sent(self, statements: str) -> CursorResult[Any]:
        """The result of the first of several statements, which take one message to the server."""
        # Without parameters psycopg uses the simple protocol, which alone takes several statements in one message.
        return self._connection.exec_driver_sql(statements, execution_options={"no_parameters": True})

    def give_back(self, key: int) -> None:
        """Release the lock ``key``; a lost connection has released it."""
        if self.is_closed:
            return
        # Forgotten before the statement: if that fails, the connection is closed, and the server releases all.
        self._keys.discard(key)
        try:
            self._release(key)
        except DBAPIError as error:
            if self.undo(error):
                with suppress(DBAPIError):
                    self._release(key)
                    return
            self.close()

    def _release(self, key: int) -> None:
        self._connection.execute(_RELEASE, {"key": key})
        self._end_if_unused()

    def close(self) -> None:
        """Close the connection, which releases all claims; do nothing the second time."""
        if self.is_closed:
            return
        self.is_closed = True
        self._connection.invalidate()
        self._connection.close()

    def _end_if_unused(self) -> None:
        if not self._keys:
            self._connection.rollback()


def _as_sqlalchemy_has_it(connection: Connection, work: Callable[[Connection], T]) -> T:
    """Run ``work``; errors from psycopg's own connection, which some statements use directly, become SQLAlchemy's."""
    try:
        return work(connection)
    except _error_type() as error:
        raw: Any = connection.connection.dbapi_connection
        lost = bool(raw.closed)
        if lost:
            connection.invalidate(error)
        raise DBAPIError.instance(
            None, None, error, _error_type(), connection_invalidated=lost, dialect=connection.dialect
        ) from error


def connection_may_be_gone(descriptor: int, heard_at: float) -> bool:
    """Whether an idle connection should be tested before it is used.

    Args:
        descriptor: its socket's. When a server ends a connection, there is something to read.
        heard_at: when it last answered, by the monotonic clock.
    """
    if time.monotonic() - heard_at > IDLE_SECONDS:
        return True
    # select() cannot watch a descriptor of 1,024 or more, which a service with many connections reaches.
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(0))
    return bool(select.select([descriptor], [], [], 0)[0])


def explained_postgres_error(
    error: BaseException | None, name: str, password: str | None, *, is_lost: bool
) -> ZeusError:
    """psycopg's ``error`` in the user's terms: its cause and a remedy, without the password.

    Args:
        name: the URL in a form that may be shown.
        is_lost: whether the connection was lost.
    """
    cause = unwrapped(str(error))
    if password:
        cause = cause.replace(password, "***")
    state = getattr(error, "sqlstate", None)
    # The first that fits; the order of the list matters.
    for code, words, message, remedy in _MEANINGS:
        if (state == code if code else state is None) and re.search(words, cause):
            return MissingError(f"the database {name!r} {message}: {cause}", remedy=remedy)
    if is_lost:
        return RunError(
            f"the connection to the database {name!r} was lost: {cause}",
            remedy="Resume with --continue when it is available again; everything stored is kept.",
        )
    return RunError(
        f"the database {name!r} failed: {cause}",
        remedy="Check that it is a database of Zeus, reachable, writable and not full; then resume with --continue.",
    )


# psycopg puts "connection failed" before each reason why it could not connect, so this pattern comes after those.
_UNREACHABLE: Final = (
    "connection failed|connection is bad|failed to resolve host|connection timeout"
    "|could not translate host name"
)
_MEANINGS: Final = (
    # SQLSTATE (None if no connection was made), a pattern of its text, its meaning, the remedy
    (
        None,
        "password authentication failed|no password supplied",
        "refuses the user",
        "Correct user and password in storage.url; a password with @ : / or % is written percent-encoded.",
    ),
    (
        None,
        "database .* does not exist",
        "is not there",
        "Make it (createdb), or correct its name in storage.url.",
    ),
    (
        None,
        "role .* does not exist",
        "does not know the user",
        "Correct the user in storage.url, or create the role.",
    ),
    (
        None,
        "too many clients|remaining connection slots|too many connections",
        "has no connection left",
        "Run fewer agents at a time, raise max_connections, or put pgbouncer in front (docs/how-to/deployment.md).",
    ),
    (
        None,
        "unsupported startup parameter",
        "is behind a pgbouncer that refuses our settings",
        "Set ignore_startup_parameters = options in pgbouncer.ini, or add ?options=none to storage.url.",
    ),
    (None, "invalid connection option|invalid .* value", "cannot be used", "Correct storage.url."),
    (
        None,
        _UNREACHABLE,
        "cannot be reached",
        "Start it, or correct host and port in storage.url; then resume an interrupted run with --continue.",
    ),
    (
        "25006",
        "",
        "is read-only",
        "Name the primary server: a standby takes no writes (target_session_attrs=read-write in storage.url).",
    ),
    (
        "42501",
        "",
        "does not permit this",
        "Grant the role what docs/how-to/deployment.md lists, or run `zeus db upgrade` as the tables' owner.",
    ),
    ("3F000", "", "has no schema to make tables in", "Create the schema that search_path names."),
)
# Without a timeout, because the claims' transaction stays open and idle while sessions run.
_CLAIM: Final = (
    "SELECT pg_try_advisory_lock({key}), set_config('idle_in_transaction_session_timeout', '0', true)"
)
_SAVEPOINT: Final = "zeus_claims"
_PROBE: Final = text("SELECT 1")
_RELEASE: Final = text("SELECT pg_advisory_unlock(:key)")


def _lock_key(session: str) -> int:
    # 64 bits, since a lock's key is a bigint. If two sessions ever shared one, the second would only seem to be
    # running.
    return int.from_bytes(hashlib.blake2b(f"zeus {session}".encode(), digest_size=8).digest(), signed=True)


def _error_type() -> type[Exception]:
    from psycopg import Error

    return Error
