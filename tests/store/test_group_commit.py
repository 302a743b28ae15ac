"""Where many sessions are live, their writes are committed together, and each has its own outcome."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from tests.support.logs import log_of
from zeus_runtime.store.database import Database
from zeus_runtime.store.group_commit import CROWD, GroupCommit, _groups, writer_beside
from zeus_runtime.store.session_lock import LogConflictError
from zeus_runtime.store.thread_log import StepEntry, ThreadLog
from zeus_runtime.store.threads import Thread

SESSIONS = CROWD + 10


@asynccontextmanager
async def crowd(
    url: str, folder: Path, count: int = SESSIONS
) -> AsyncIterator[tuple[ThreadLog, list[Thread]]]:
    """A log with so many claimed sessions."""
    async with log_of(url, folder) as (database, log):
        threads = [await log.open(f"session_{number}", agent="a") for number in range(count)]
        ends = [await database.claim(thread.session) for thread in threads]
        yield log, threads
        for end in ends:
            end()


def group_of(database: Database) -> GroupCommit[Any]:
    group = database._group
    assert group is not None
    return group


@pytest.fixture
def transactions(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many works each transaction of a writer had."""
    found: list[int] = []
    together = GroupCommit._together

    def counted(self: GroupCommit[Any], works: list[Callable[[Any], Any]]) -> list[Any]:
        found.append(len(works))
        return together(self, works)

    monkeypatch.setattr(GroupCommit, "_together", counted)
    return found


async def test_every_session_gets_its_messages_in_order(
    tmp_path: Path, database_url: str, transactions: list[int]
) -> None:
    async with crowd(database_url, tmp_path) as (log, threads):

        async def talk(thread: Thread) -> None:
            for seq in range(1, 11):
                step = StepEntry(seq, seq, "{}", texts={"d": "t"})
                await log.append(thread, seq, f"{thread.session}.{seq}", f'"{seq}"', step=step)
                written = await log.read(thread)
                assert [entry.seq for entry in written] == list(range(1, seq + 1)), "written before it counts"

        await asyncio.gather(*map(talk, threads))
        assert sum(transactions) == 10 * SESSIONS
        assert len(transactions) < sum(transactions)


async def test_one_that_fails_fails_alone(tmp_path: Path, database_url: str, transactions: list[int]) -> None:
    async with crowd(database_url, tmp_path) as (log, threads):
        taken, lost, *others = threads
        await log.append(taken, 1, "m", '"first"')
        await log.append(lost, 1, "m", '"first"')
        async with log_of(database_url, tmp_path) as (_, other):
            await other.database.run(
                lambda connection: connection.execute(
                    text("UPDATE thread SET epoch = epoch + 1 WHERE session = :session"),
                    {"session": lost.session},
                )
            )
        transactions.clear()
        outcomes = await asyncio.gather(
            log.append(taken, 1, "again", '"second"'),
            log.append(lost, 2, "late", '"second"'),
            *(log.append(each, 1, "m", '"first"') for each in others),
            return_exceptions=True,
        )
        failed, late, *fine = outcomes
        assert isinstance(failed, LogConflictError)
        assert "was written by another process" in str(failed)
        assert isinstance(late, LogConflictError)
        assert "has taken the session" in str(late)
        assert all(isinstance(each, int) for each in fine), fine
        for thread in (taken, lost, *others):
            assert [entry.payload for entry in await log.read(thread)] == ['"first"']


async def test_few_sessions_write_on_the_event_loop(tmp_path: Path) -> None:
    async with crowd("sqlite:///a.db", tmp_path, CROWD - 1) as (log, threads):
        where = await log.database.append(lambda _: threading.get_ident())
        assert where == threading.get_ident()
        end = await log.database.claim("one_more")
        assert await log.database.append(lambda _: threading.get_ident()) != where
        end()
        assert await log.database.append(lambda _: threading.get_ident()) == where
        assert len(threads) == CROWD - 1


async def test_agents_of_one_process_share_the_writer_and_the_last_ends_it(tmp_path: Path) -> None:
    key = str(tmp_path / "a.db")
    async with crowd("sqlite:///a.db", tmp_path, CROWD - 1) as (log, _):
        async with log_of("sqlite:///a.db", tmp_path) as (other, _):
            end = await other.claim("of the other")
            assert group_of(other) is group_of(log.database) is _groups[key]
            threads = [await each.append(lambda _: threading.get_ident()) for each in (other, log.database)]
            assert threads[0] == threads[1] != threading.get_ident()
            end()
        assert key in _groups
        assert await log.database.append(lambda _: 5) == 5
    assert key not in _groups
    assert not (tmp_path / "a.db-wal").exists(), "no connection is left"


async def test_the_driver_itself_writes_beside(tmp_path: Path) -> None:
    import sqlite3

    async with crowd("sqlite:///a.db", tmp_path):
        writer = writer_beside(tmp_path / "a.db")
        assert writer is not None
        await writer.commit(lambda raw: raw.execute("CREATE TABLE note (text TEXT PRIMARY KEY)"))
        for _ in range(2):
            done = await asyncio.gather(
                *(
                    writer.commit(lambda raw: raw.execute("INSERT INTO note VALUES ('a')").rowcount)
                    for _ in "ab"
                ),
                return_exceptions=True,
            )
        assert all(isinstance(each, sqlite3.IntegrityError) for each in done)
    assert writer_beside(tmp_path / "a.db") is None


async def test_nothing_is_written_twice_after_a_lost_connection() -> None:
    begun: list[int] = []

    def lost(_connection: object, work: Callable[[object], None]) -> None:
        work(_connection)
        raise DBAPIError(None, None, Exception("gone"), connection_invalidated=True)

    group = GroupCommit[object](object, lost, lambda _: None, lambda _: None)
    group.join()
    outcomes = await asyncio.gather(
        *(group.commit(lambda _, number=number: begun.append(number)) for number in range(5)),  # type: ignore[misc]
        return_exceptions=True,
    )
    assert all(isinstance(each, DBAPIError) for each in outcomes)
    assert sorted(begun) == list(range(5))
    assert group.leave()


async def test_a_write_that_nobody_waits_for_any_more_harms_no_other(tmp_path: Path) -> None:
    async with crowd("sqlite:///a.db", tmp_path) as (log, threads):
        for thread in threads[:2]:
            await log.append(thread, 1, "first", '"first"')
        begun, go = threading.Event(), threading.Event()

        def held(_: Connection) -> None:
            begun.set()
            go.wait()

        first = asyncio.create_task(log.database.append(held))
        await asyncio.to_thread(begun.wait)
        given_up = asyncio.create_task(log.append(threads[0], 2, "m", '"given up"'))
        kept = asyncio.create_task(log.append(threads[1], 2, "m", '"kept"'))
        await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.sleep(0)
        go.set()
        await asyncio.gather(first, kept)
        assert [entry.payload for entry in await log.read(threads[0])] == ['"first"']
        assert [entry.payload for entry in await log.read(threads[1])] == ['"first"', '"kept"']


async def test_what_follows_a_commit_neither_repeats_nor_stops_the_writes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    written: list[int] = []

    def fails(_connection: object) -> None:
        raise OSError("no room")

    group = GroupCommit[object](object, lambda connection, work: work(connection), lambda _: None, fails)
    group.join()
    for number in range(3):
        await group.commit(lambda _, number=number: written.append(number))  # type: ignore[misc]
    assert written == [0, 1, 2]
    assert await asyncio.to_thread(group.leave)
    assert "could not be tidied" in caplog.text
