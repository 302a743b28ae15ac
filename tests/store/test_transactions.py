"""Where a transaction runs: on the event loop's own thread, or on the worker."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Connection, text

from zeus_runtime.store.database import Database
from zeus_runtime.store.transactions import BUSY_TIMEOUT_SECONDS, retry_while_locked


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
