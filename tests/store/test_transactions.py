"""Where a transaction runs: on the event loop's own thread, or on the worker."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, text

from zeus_runtime.store import transactions
from zeus_runtime.store.database import Database
from zeus_runtime.store.transactions import BUSY_TIMEOUT_SECONDS, Transactions, retry_while_locked
from zeus_runtime.store.write_ahead_log import shorten_log


def thread(_connection: Connection) -> int:
    return threading.get_ident()


def held(begun: threading.Event, end: threading.Event) -> Callable[[Connection], None]:
    """Work that lasts until it is told to end."""

    def work(_connection: Connection) -> None:
        begun.set()
        end.wait()

    return work


async def test_what_computes_runs_where_it_is_asked_for(tmp_path: Path) -> None:
    database = Database("sqlite:///a.db", directory=tmp_path)
    worker = await database.run(thread)
    assert await database.compute(thread) == threading.get_ident() != worker
    await database.close()


async def test_what_computes_never_runs_beside_the_worker(tmp_path: Path) -> None:
    begun, end = threading.Event(), threading.Event()
    database = Database("sqlite:///a.db", directory=tmp_path)
    worker = await database.run(thread)
    first = asyncio.create_task(database.run(held(begun, end)))
    await asyncio.to_thread(begun.wait)
    second = asyncio.create_task(database.compute(thread))
    await asyncio.sleep(0)
    assert await database.write(thread) == threading.get_ident(), "what needs nothing else does not wait"
    end.set()
    await first
    assert await second == worker
    assert await database.compute(thread) == threading.get_ident()
    await database.close()


async def test_who_waits_no_more_has_not_ended_what_the_worker_does(tmp_path: Path) -> None:
    begun, end = threading.Event(), threading.Event()
    database = Database("sqlite:///a.db", directory=tmp_path)
    worker = await database.run(thread)
    waiting = asyncio.create_task(database.run(held(begun, end)))
    await asyncio.to_thread(begun.wait)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    computed = asyncio.create_task(database.compute(thread))
    await asyncio.sleep(0)
    end.set()
    assert await computed == worker
    await database.close()


async def test_what_computes_waits_for_another_process_on_the_worker(tmp_path: Path) -> None:
    ran: list[int] = []

    def write(connection: Connection) -> None:
        connection.execute(text("INSERT INTO t VALUES (1)"))
        ran.append(threading.get_ident())

    database = Database("sqlite:///a.db", directory=tmp_path)
    await database.run(lambda connection: connection.execute(text("CREATE TABLE t (x)")))
    with sqlite3.connect(tmp_path / "a.db", isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        written = asyncio.create_task(database.compute(write))
        await asyncio.sleep(0)
        assert not written.done()
        assert not ran
        other.execute("COMMIT")
        await written
    other.close()
    assert ran == [await database.run(thread)]
    await database.close()


async def test_the_log_is_shortened_again_if_the_worker_is_faster_than_its_caller(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Fast(ThreadPoolExecutor):
        def submit(self, *args: Any, **kwargs: Any) -> Future[Any]:
            handed = super().submit(*args, **kwargs)
            wait([handed])
            return handed

    log = tmp_path / "log"
    shortened: list[int] = []

    def shorten(_connection: str) -> None:
        shortened.append(log.stat().st_size)
        log.write_bytes(b"")

    monkeypatch.setattr(transactions, "ThreadPoolExecutor", Fast)
    monkeypatch.setattr(transactions, "LOG_BYTES", 10)
    made = Transactions[str](
        lambda _timeout_seconds: "connection",
        lambda connection, work: work(connection),
        lambda _connection: None,
        inline=True,
        log=log,
        shorten=shorten,
    )
    # Opens the worker's connection, so that writes are tried in place.
    await made.run(lambda _connection: None)
    for size in (11, 12):
        log.write_bytes(b"x" * size)
        for _ in range(16):
            await made.write(lambda _connection: None)
    await made.close()
    assert shortened == [11, 12]


def test_who_has_waited_for_a_lock_once_does_not_wait_two_hundred_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]
    tried: list[float] = []

    def wait(seconds: float) -> None:
        now[0] += seconds

    def locked_at_once() -> None:
        tried.append(now[0])
        raise sqlite3.OperationalError("database is locked")

    def locked_after_its_timeout() -> None:
        wait(BUSY_TIMEOUT_SECONDS)
        locked_at_once()

    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", wait)
    with pytest.raises(sqlite3.OperationalError):
        retry_while_locked(locked_at_once)
    assert now[0] == pytest.approx(10)
    tried.clear()
    with pytest.raises(sqlite3.OperationalError):
        retry_while_locked(locked_after_its_timeout)
    assert len(tried) == 1


def adding(connection: Connection) -> None:
    connection.execute(text("INSERT INTO note VALUES (zeroblob(100000))"))


async def filled(database: Database, writes: int) -> int:
    """The longest write-ahead log during so many writes of 100 KB."""
    assert database.file is not None
    log, longest = database.file.with_name(f"{database.file.name}-wal"), 0
    for _ in range(writes):
        await database.write(adding)
        longest = max(longest, log.stat().st_size)
        await asyncio.sleep(0.001)
    return longest


async def test_the_write_ahead_log_stays_short_during_a_run(tmp_path: Path) -> None:
    database = Database("sqlite:///a.db", directory=tmp_path)
    await database.run(lambda connection: connection.execute(text("CREATE TABLE note (data BLOB)")))
    assert await filled(database, 400) < 16 << 20
    assert (
        await database.run(lambda connection: connection.execute(text("SELECT count(*) FROM note")).scalar())
        == 400
    )
    await database.close()


async def test_a_reader_keeps_the_log_and_stops_no_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[int] = []
    monkeypatch.setattr(
        "zeus_runtime.store.database.shorten_log", lambda raw: (tries.append(1), shorten_log(raw))
    )
    database = Database("sqlite:///a.db", directory=tmp_path)
    await database.run(lambda connection: connection.execute(text("CREATE TABLE note (data BLOB)")))
    with closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM note").fetchone() == (0,)
        assert await filled(database, 200) > 16 << 20
        assert 1 <= len(tries) <= 3, "20 MB in all: once for each 8 MB more, not at every look"
        assert reader.execute("SELECT count(*) FROM note").fetchone() == (0,), "it still sees what it saw"
        reader.execute("COMMIT")
        assert reader.execute("SELECT count(*) FROM note").fetchone() == (200,)
    await database.close()
