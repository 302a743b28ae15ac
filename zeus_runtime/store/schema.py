"""The schema of a database: its revision, and the upgrade to the revision that this program knows."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from sqlalchemy import (
    Column,
    Connection,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    inspect,
    select,
    text,
)
from sqlalchemy.exc import DatabaseError

from zeus_runtime.errors import MissingError
from zeus_runtime.store.tables import TABLES

if TYPE_CHECKING:
    from zeus_runtime.store.database import Database

HEAD: Final = "0028"
"""The newest revision of ``migrations``. Revisions have four digits, so that they can be compared as texts."""

MIGRATIONS: Final = Path(__file__).with_name("migrations")

_FIRST: Final = "0001"
_OURS: Final = {"key", "session", "agent", "created_ms", "updated_ms"}
"""The columns of the table ``thread`` before the first revision; another program's table does not have them."""
_LOCK: Final = int.from_bytes(b"zeus", "big")
_version = Table(
    "alembic_version",
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)
_VERSION = select(_version.c.version_num)


def state(found: str | None) -> Literal["no tables", "current", "older", "newer", "another program's"]:
    """The meaning of a revision to this program."""
    if found is None:
        return "no tables"
    if found == HEAD:
        return "current"
    if not (len(found) == len(HEAD) and found.isdigit()):
        return "another program's"
    return "older" if found < HEAD else "newer"


async def current(database: Database) -> str | None:
    """The revision of a database; None without Zeus's tables, ``0001`` for a database from before the first revision.

    Raises:
        MissingError: it cannot be reached or used, or belongs to another program.
        RunError: it cannot be read.
    """
    return await database.run(lambda connection: _found(connection, database.name))


async def ready(database: Database) -> None:
    """Ensure that a database has this program's schema; if it has, this is one small query.

    A database without tables gets them. A SQLite file with an older schema is upgraded while other processes wait. A
    server is not upgraded, because many programs may use it, and the role that runs agents need not own its tables.

    Raises:
        MissingError: the database belongs to another program, its schema is newer than this program knows, or a
            server's schema is older.
        RunError: the database cannot be read or written.
    """
    # Without a lock, since this is nearly always the answer; `_advance` reads again under it.
    if await database.run(_fast) != HEAD:
        await _advance(database, upgrades=not database.is_server)


async def upgrade(database: Database) -> str | None:
    """Upgrade a database to this program's schema, in one transaction.

    Returns:
        the revision it had; None if it had no tables.

    Raises:
        MissingError: the database belongs to another program, or its schema is newer than this program knows.
        RunError: the database cannot be read or written.
    """
    return await _advance(database, upgrades=True)


async def _advance(database: Database, *, upgrades: bool) -> str | None:
    def work(connection: Connection) -> str | None:
        _lock(connection)
        # Read again under the lock: another process may have upgraded it meanwhile.
        found = _found(connection, database.name)
        if found is None:
            _create(connection)
        elif found != HEAD:
            _refuse(found, database.name, upgrades=upgrades)
            _migrate(connection, found, database.file)
        return found

    return await database.run(work)


def _fast(connection: Connection) -> str | None:
    """The stored revision, read without checking whether the table exists."""
    try:
        return connection.execute(_VERSION).scalar()
    except DatabaseError as error:
        if getattr(error.orig, "sqlstate", None) == "42P01" or "no such table" in str(error.orig):
            return None
        raise


def _found(connection: Connection, name: str) -> str | None:
    tables = inspect(connection)
    if tables.has_table(_version.name) and (written := connection.execute(_VERSION).scalar()):
        return str(written)
    if not tables.has_table("thread"):
        return None
    if not {str(column["name"]) for column in tables.get_columns("thread")} >= _OURS:
        raise MissingError(
            f"the database {name!r} has a table 'thread' that is another program's",
            remedy="Check that it is a database of Zeus, or set storage.url to a place of its own.",
        )
    return _FIRST


def _lock(connection: Connection) -> None:
    """Keep other processes from upgrading until the transaction ends."""
    if connection.dialect.name == "sqlite":
        # Python's driver begins a transaction by itself only before a write, so none is open here yet. IMMEDIATE takes
        # the write lock now: a transaction that reads first and then writes may be refused in WAL mode.
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        return
    # An upgrade, or the wait for another process's, may take longer than the default timeout.
    connection.execute(text("SET LOCAL statement_timeout = 0"))
    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})


def _create(connection: Connection) -> None:
    from zeus_runtime.store.knowledge_tables import create_knowledge_tables
    from zeus_runtime.store.memory_tables import create_memory_tables
    from zeus_runtime.store.row_security import secure_sessions
    from zeus_runtime.store.service_audit import append_only

    for table in TABLES:
        table.create(connection)
    secure_sessions(connection)
    create_memory_tables(connection)
    create_knowledge_tables(connection)
    append_only(connection)
    _version.create(connection, checkfirst=True)
    connection.execute(_version.insert(), {"version_num": HEAD})


def _refuse(found: str, name: str, *, upgrades: bool) -> None:
    match state(found):
        case "another program's":
            raise MissingError(
                f"the database {name!r} has the schema {found!r}, which is not a revision of Zeus",
                remedy="Set storage.url to a database of its own; another program keeps its tables in this one.",
            )
        case "newer":
            raise MissingError(
                f"the schema of the database {name!r} is newer ({found}) than this Zeus knows ({HEAD})",
                remedy="Use the newer Zeus that upgraded it, or another database.",
            )
        case "older" if not upgrades:
            raise MissingError(
                f"the schema of the database {name!r} is older ({found}) than this Zeus needs ({HEAD})",
                remedy="Back it up, then run `zeus db upgrade` once, as the role that owns its tables.",
            )


def _migrate(connection: Connection, found: str, file: Path | None) -> None:
    from alembic.operations import Operations
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory

    script = ScriptDirectory(str(MIGRATIONS))
    has_version = inspect(connection).has_table(_version.name)
    # A database from before the first revision may lack some tables, which the first revision makes.
    base = found if has_version else "base"
    # Alembic gives the newest first.
    steps = [*script.iterate_revisions(HEAD, base)][::-1]
    for step in steps:
        rewrites_data = getattr(step.module, "rewrites_data", None)
        if file is not None and rewrites_data is not None and rewrites_data(connection):
            _copy(file, file.with_name(f"{file.name}.before-{step.revision}"))
            # One copy is enough: it is made before the first step, so it also has what later steps rewrite.
            break
    with Operations.context(MigrationContext.configure(connection)):
        for step in steps:
            step.module.upgrade()
    if not has_version:
        _version.create(connection)
    # The table has one row, whatever a former state left in it.
    connection.execute(_version.delete())
    connection.execute(_version.insert(), {"version_num": HEAD})


def _copy(file: Path, copy: Path) -> None:
    """Copy the committed content; the upgrading transaction has written nothing yet."""
    from zeus_runtime.store.database import make_file

    # Left by an upgrade that was interrupted; the original is still as it was then.
    copy.unlink(missing_ok=True)
    make_file(copy)
    with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(copy)) as target:
        # SQLite's own copy: a copy of the file alone would lack the content of its write-ahead log.
        source.backup(target)
