"""What goes wrong in a SQLite file is told by its cause, with what to do about it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from sqlalchemy import Connection, text

from zeus_runtime.errors import MissingError, RunError, ZeusError
from zeus_runtime.store.database import Database


async def failing(folder: Path, *statements: str) -> ZeusError:
    """The error of statements, each run in a transaction of its own."""
    database = Database("sqlite:///a.db", directory=folder)
    try:
        for each in statements:

            def work(connection: Connection, statement: str = each) -> None:
                connection.execute(text(statement))

            await database.run(work)
    except ZeusError as error:
        return error
    finally:
        await database.close()
    raise AssertionError("nothing failed")


async def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "a.db").write_text("The cello has four strings. " * 100)
    error = await failing(tmp_path, "SELECT 1 FROM sqlite_master")
    assert (type(error), error.exit_code) == (MissingError, 4)
    assert "'sqlite:///a.db' is not a database" in error.message
    assert "--continue" not in str(error)


async def test_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a.db").mkdir()
    error = await failing(tmp_path, "SELECT 1 FROM sqlite_master")
    assert (error.exit_code, error.message) == (
        4,
        "the database 'sqlite:///a.db' cannot be opened: it is a folder",
    )


async def test_a_disk_that_is_full(tmp_path: Path) -> None:
    make = "CREATE TABLE a (b BLOB)"
    error = await failing(
        tmp_path, make, "PRAGMA max_page_count = 3", "INSERT INTO a VALUES (zeroblob(100000))"
    )
    assert (type(error), error.exit_code) == (RunError, 1)
    assert "has no room left" in error.message
    assert error.remedy == "Make room on its disk and try again; resume a run with --continue."


async def test_a_damaged_file(tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("CREATE TABLE a (b TEXT)")
        connection.executemany("INSERT INTO a VALUES (?)", [("x" * 1000,)] * 50)
    content = bytearray(file.read_bytes())
    content[4096:8192] = b"\xff" * 4096
    file.write_bytes(content)
    error = await failing(tmp_path, "SELECT sum(length(b)) FROM a")
    assert "is damaged" in error.message
    assert "restore a backup" in (error.remedy or "")
