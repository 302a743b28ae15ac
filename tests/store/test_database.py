"""What goes wrong in a database is told alike, whichever way a statement took to it."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from sqlalchemy import Connection, insert, text
from sqlalchemy.exc import IntegrityError

from zeus_runtime.errors import MissingError, RunError
from zeus_runtime.store.compiled_statements import Prepared
from zeus_runtime.store.database import Database
from zeus_runtime.store.memory_tables import PLACE, create_memory_tables

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
    monkeypatch.setattr("zeus_runtime.store.database._execute", no_room)
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
