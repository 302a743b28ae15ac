"""SQLite's write-ahead log: moving it into the database, and returning freed space to the file system."""

from __future__ import annotations

import logging
import sqlite3
from typing import TYPE_CHECKING, Final

from zeus_runtime.store.compiled_statements import sqlite_driver
from zeus_runtime.store.transactions import BUSY_TIMEOUT_SECONDS

if TYPE_CHECKING:
    from sqlalchemy import Connection

_log = logging.getLogger(__name__)

_TRUNCATE_MS: Final = 200
"""How long writers are stopped at most while the log is cut to nothing."""


def move_log(connection: Connection) -> None:
    """Move what no reader needs from the log into the database; blocks nobody."""
    _execute_if_room(connection, "PRAGMA wal_checkpoint(PASSIVE)")


def compact(connection: Connection) -> None:
    """Return freed pages to the file system, and cut the log to nothing."""
    _execute_if_room(connection, "PRAGMA incremental_vacuum")
    _execute_if_room(connection, "PRAGMA wal_checkpoint(TRUNCATE)")


def shorten_log(connection: Connection | sqlite3.Connection) -> None:
    """Move the log into the database and cut it to nothing; a failure is only logged.

    The first part blocks nobody. The second stops writers for as long as what they wrote meanwhile takes, and gives up
    soon if another process is reading.
    """
    raw = connection if isinstance(connection, sqlite3.Connection) else _driver(connection)
    try:
        # Copies most of the log while others write, so that the TRUNCATE that stops them has little left to do.
        raw.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        raw.execute(f"PRAGMA busy_timeout={_TRUNCATE_MS}")
        try:
            raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        finally:
            # The connection is the worker's, which otherwise waits long for another process's transaction.
            raw.execute(f"PRAGMA busy_timeout={int(BUSY_TIMEOUT_SECONDS * 1000)}")
    except sqlite3.Error as error:
        _log.warning("the database keeps its write-ahead log: %s", error)


def _execute_if_room(connection: Connection, statement: str) -> None:
    try:
        _execute(connection, statement)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorname != "SQLITE_FULL":
            raise
        _log.warning(
            "the database keeps its write-ahead log, with what was deleted, until there is room: there is no room left"
            " on its disk"
        )


def _execute(connection: Connection, statement: str) -> None:
    # `executescript` steps a statement to its end; `execute` steps one without columns once, which frees one page.
    _driver(connection).executescript(statement)


def _driver(connection: Connection) -> sqlite3.Connection:
    raw = sqlite_driver(connection)
    assert raw is not None, "only SQLite has this log"
    return raw
