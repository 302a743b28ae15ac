"""What goes wrong in a database is told alike, whichever way a statement took to it."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import struct
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from sqlalchemy import ClauseElement, Connection, Dialect, insert, select, text
from sqlalchemy.dialects.sqlite.base import SQLiteDialect
from sqlalchemy.exc import IntegrityError
from sqlalchemy.sql.compiler import SQLCompiler

from zeus_runtime.config.sqlite_url import database_file
from zeus_runtime.errors import MissingError, RunError, ZeusError
from zeus_runtime.store.compiled_statements import Prepared
from zeus_runtime.store.database import Database, make_private
from zeus_runtime.store.memory_tables import PLACE, create_memory_tables
from zeus_runtime.trust import databases
from zeus_runtime.trust.databases import is_made
from zeus_runtime.trust.decision import records_folder

ANN = Prepared(insert(PLACE).values(scope="user", scope_id="ann", changes=0).inline())
NOWHERE = Prepared(text("INSERT INTO nowhere VALUES (1)"))


async def test_an_error_of_the_driver_itself_is_explained_as_one_of_sqlalchemys_is(tmp_path: Path) -> None:
    def twice(connection: Connection) -> None:
        ANN.run(connection, {})
        ANN.run(connection, {})

    database = Database("sqlite:///a.db", directory=tmp_path)
    await database.run(create_memory_tables)
    for transact in (database.run, database.write):
        with pytest.raises(RunError, match="no such table"):
            await transact(lambda connection: NOWHERE.run(connection, {}))
        with pytest.raises(IntegrityError, match="UNIQUE"):
            await transact(twice)
    await database.close()


async def test_a_statement_is_compiled_once_for_all_databases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobodys = select(PLACE.c.changes).where(PLACE.c.scope == "nobody")  # in no other test
    compiled: list[str] = []
    compile_one = SQLiteDialect.statement_compiler.__init__

    def counting(
        self: SQLCompiler, dialect: Dialect, statement: ClauseElement, *args: Any, **named: Any
    ) -> None:
        compiled.append(str(statement))
        compile_one(self, dialect, statement, *args, **named)

    for name in "abc":
        database = Database(f"sqlite:///{name}.db", directory=tmp_path)
        await database.run(create_memory_tables)
        monkeypatch.setattr(SQLiteDialect.statement_compiler, "__init__", counting)
        for transact in (database.run, database.write):
            assert await transact(lambda connection: connection.execute(nobodys).all()) == []
        monkeypatch.undo()
        await database.close()
    assert len(compiled) == 1


async def test_databases_opened_at_once_are_each_their_own(tmp_path: Path) -> None:
    """They share an engine, and each connection is opened on a thread of its own."""
    databases = [Database(f"sqlite:///{number}.db", directory=tmp_path) for number in range(8)]

    async def written(number: int, database: Database) -> str:
        await database.run(create_memory_tables)
        rows = await database.write(lambda connection: connection.execute(text("PRAGMA database_list")).all())
        return Path(rows[0][2]).name

    assert await asyncio.gather(*(written(*each) for each in enumerate(databases))) == [
        f"{number}.db" for number in range(8)
    ]
    for database in databases:
        await database.close()


async def test_what_could_not_be_committed_is_gone_and_holds_up_nobody(tmp_path: Path) -> None:
    """SQLite leaves a transaction open whose commit it refuses; the next one would have been part of it."""

    def write(connection: Connection, value: int) -> None:
        connection.execute(text("INSERT INTO child VALUES (:value)"), {"value": value})

    database = Database("sqlite:///a.db", directory=tmp_path)
    another = Database("sqlite:///a.db", directory=tmp_path)
    tables = (
        "CREATE TABLE parent (id INTEGER PRIMARY KEY)",
        "CREATE TABLE child (of INTEGER REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED)",
        "INSERT INTO parent VALUES (1)",
    )
    await database.run(lambda connection: [connection.execute(text(each)) for each in tables])
    for transact in (database.run, database.write, database.compute):
        with pytest.raises(IntegrityError, match="FOREIGN KEY"):
            await transact(lambda connection: write(connection, 2))
        await another.write(lambda connection: write(connection, 1))
        await transact(lambda connection: write(connection, 1))
    found = await database.run(
        lambda connection: connection.execute(text("SELECT of FROM child")).scalars().all()
    )
    assert found == [1] * 6
    await another.close()
    await database.close()


@pytest.mark.parametrize("deed", [Database.checkpoint, Database.compact])
@pytest.mark.parametrize(("name", "told"), [("SQLITE_FULL", True), ("SQLITE_CORRUPT", False)])
async def test_a_log_that_cannot_be_moved_for_want_of_room_fails_nothing_that_was_committed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    name: str,
    told: bool,
    deed: Callable[[Database], Awaitable[None]],
) -> None:
    def no_room(_connection: Connection, _statement: str) -> None:
        error = sqlite3.OperationalError("the disk")
        error.sqlite_errorname = name
        raise error

    database = Database("sqlite:///a.db", directory=tmp_path)
    await database.run(lambda connection: connection.execute(text("CREATE TABLE a (b)")))
    monkeypatch.setattr("zeus_runtime.store.write_ahead_log._execute", no_room)
    if told:
        await deed(database)
        assert "there is no room left on its disk" in caplog.text
    else:
        with pytest.raises(RunError):
            await deed(database)
    await database.close()


@pytest.mark.parametrize("another_takes_its_place", [False, True])
async def test_nothing_is_called_written_to_a_file_that_is_no_longer_there(
    tmp_path: Path, *, another_takes_its_place: bool
) -> None:
    """SQLite goes on writing to a file that was deleted, and all of it is lost when it is closed."""
    database = Database("sqlite:///a.db", directory=tmp_path)
    await database.run(create_memory_tables)
    other = Database("sqlite:///b.db", directory=tmp_path)
    await other.run(create_memory_tables)
    await other.close()
    for file in tmp_path.glob("a.db*"):  # noqa: ASYNC240
        file.unlink()
    if another_takes_its_place:
        (tmp_path / "b.db").rename(tmp_path / "a.db")
    for transact in (database.run, database.write, database.compute):
        with pytest.raises(MissingError, match=r"'sqlite:///a.db' was deleted or replaced"):
            await transact(lambda connection: ANN.run(connection, {}))
    await database.close()
    assert not (tmp_path / "a.db-wal").exists()


PIECES = (
    "a",
    ".",
    "%2E",
    "%25",
    "%32",
    "%",
    "?",
    "%3F",
    "#",
    "%23",
    " ",
    "%20",
    "+",
    "é",
    "%C3%A9",
    ":",
    "&",
    "=",
    "@",
    "~",
)


@given(path=st.lists(st.sampled_from(PIECES), max_size=6).map("".join))
@example(path="data%2Fshipped%2Edb")
@example(path=":memory:?uri=true&mode=rwc")
@example(path="?uri=true&cache=b.db")
@example(path="file:b.db?uri=true")
def test_the_file_that_a_check_judges_is_the_one_that_sqlite_opens(path: str) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name).resolve()
        judged = database_file(f"sqlite:///{path}", folder)
        assume(judged is None or not judged.is_dir())
        assert asyncio.run(_opened(f"sqlite:///{path}", folder)) == ("" if judged is None else str(judged))
        # Not even beside it is another.
        assert [each for each in folder.rglob("*") if each.is_file()] == [each for each in [judged] if each]


async def _opened(url: str, folder: Path) -> str:
    """The file that SQLite itself says it has opened."""
    database = Database(url, directory=folder, is_scratch=True)
    await database.run(create_memory_tables)
    ((_, _, file),) = await database.run(
        lambda connection: connection.execute(text("PRAGMA database_list")).all()
    )
    await database.close()
    return str(file)


@pytest.mark.parametrize("url", ["sqlite:///a%00.db", "sqlite://host/a.db", "sqlite://a.db", "sqlite:a.db"])
def test_a_sqlite_url_that_names_no_file_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(MissingError, match="cannot be used"):
        Database(url, directory=tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_new_file_that_sqlite_cannot_write_is_told_in_the_user_s_terms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_arguments: object) -> bool:
        raise sqlite3.OperationalError("unable to open database file")

    monkeypatch.setattr("zeus_runtime.trust.databases.make", fails)
    with pytest.raises(ZeusError, match="unable to open database file"):
        Database("sqlite:///new.db", directory=tmp_path)


def journal_of(pages: bytes, bytes_of_page: int) -> bytes:
    """A rollback journal that restores these first pages (https://sqlite.org/fileformat2.html#the_rollback_journal)."""
    each = [pages[at : at + bytes_of_page] for at in range(0, len(pages), bytes_of_page)]
    head = bytes.fromhex("d9d505f920a163d7") + struct.pack(">5I", len(each), 0, len(each), 512, bytes_of_page)
    records = (
        struct.pack(">I", number) + page + struct.pack(">I", sum(page[bytes_of_page - 200 : 0 : -200]))
        for number, page in enumerate(each, 1)
    )
    return head.ljust(512, b"\0") + b"".join(records)


@pytest.mark.parametrize("is_moved", [True, False])
async def test_a_journal_beside_a_database_in_use_is_not_played_back(
    tmp_path: Path, *, is_moved: bool
) -> None:
    """Zeus writes a log, so another program made it: a command, or a commit of the repository."""
    file = tmp_path / "a.db"
    first = Database("sqlite:///a.db", directory=tmp_path)
    await first.run(create_memory_tables)
    if is_moved:
        await first.checkpoint()
    former = file.read_bytes()
    assert (len(former) > 4096) == is_moved
    await first.write(lambda connection: ANN.run(connection, {}))
    if is_moved:
        await first.close()
    open_before = Database("sqlite:///a.db", directory=tmp_path)
    journal = tmp_path / "a.db-journal"
    journal.write_bytes(journal_of(former, 4096))
    with pytest.raises(MissingError, match=r"rollback journal is beside the database .*a\.db") as found:
        Database("sqlite:///a.db", directory=tmp_path)
    assert str(journal) in (found.value.remedy or "")
    with pytest.raises(MissingError, match="rollback journal"):
        await open_before.run(lambda connection: None)
    journal.unlink()
    (tmp_path / "a.db-journal").touch()  # as Zeus makes it before commands
    again = Database("sqlite:///a.db", directory=tmp_path)
    assert await again.run(
        lambda connection: connection.execute(select(PLACE.c.scope_id)).scalars().all()
    ) == ["ann"]
    for each in (again, open_before, *(() if is_moved else (first,))):
        await each.close()


def killed_before_the_first_page(file: Path) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute("PRAGMA user_version=5")
        journal = file.with_name(f"{file.name}-journal").read_bytes()
    file.with_name(f"{file.name}-journal").write_bytes(journal)


def killed_when_it_got_its_log(file: Path) -> None:
    make_private(file)
    former = file.read_bytes()
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
    assert len(former) == 4096
    file.with_name(f"{file.name}-journal").write_bytes(journal_of(former, 4096))


def killed_in_a_program_that_took_its_log_away(file: Path) -> None:
    make_private(file)
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE other (content)")
        file.with_name(f"{file.name}-journal").write_bytes(journal_of(file.read_bytes(), 4096))


@pytest.mark.parametrize(
    "kill",
    [killed_before_the_first_page, killed_when_it_got_its_log, killed_in_a_program_that_took_its_log_away],
)
async def test_a_database_whose_making_was_killed_is_made(
    tmp_path: Path, kill: Callable[[Path], None]
) -> None:
    file = tmp_path / "a.db"
    kill(file)
    assert (tmp_path / "a.db-journal").stat().st_size
    database = Database("sqlite:///a.db", directory=tmp_path)
    await database.run(create_memory_tables)
    await database.close()
    assert not (tmp_path / "a.db-journal").exists()
    assert is_made(records_folder(os.environ), file)


async def test_a_journal_that_a_starting_process_has_just_written_is_no_strangers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other process has made the database between two looks of this one, and its journal is gone."""
    database = Database("sqlite:///a.db", directory=tmp_path)
    await database.run(create_memory_tables)
    journal = tmp_path / "a.db-journal"
    journal.write_bytes(b"x")
    read = databases._header

    def late(file: Path) -> bytes:
        journal.unlink()
        return read(file)

    monkeypatch.setattr(databases, "_header", late)
    databases.refuse_journal(tmp_path / "a.db")
    await database.close()
