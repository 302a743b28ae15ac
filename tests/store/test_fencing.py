"""A process that lost its session without knowing can write no more, whatever it was in the middle of."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import text

from tests.support.databases import execute
from tests.support.logs import log_of
from zeus_runtime.errors import BusyError, UsageError
from zeus_runtime.store.database import Database
from zeus_runtime.store.session_lock import LogConflictError
from zeus_runtime.store.session_tree import removal
from zeus_runtime.store.thread_log import StepEntry, ThreadLog
from zeus_runtime.store.threads import Thread

HOLDER = """
import asyncio, sys
from pathlib import Path
from zeus_runtime.store.database import Database
from zeus_runtime.store.thread_log import StepEntry, ThreadLog
from zeus_runtime.store.session_lock import LogConflictError

async def main(url):
    database = Database(url, directory=Path.cwd())
    log = ThreadLog(database)
    await log.create_tables()
    thread = await log.open("session_1", agent="a")
    give_back = await database.claim("session_1")
    await log.append(thread, 1, "a.1", '"from a"')
    print("holding", flush=True)
    sys.stdin.readline()
    for work in (
        log.append(thread, 2, "a.2", '"from a"', step=StepEntry(1, 1, "{}", texts={"d": "t"})),
        log.append_edits(thread, 1, 1, ['"from a"', '"from a"']),
        log.append_step(thread, StepEntry(1, 1, "{}", texts={"d": "t"})),
    ):
        try:
            await work
            print("written", flush=True)
        except LogConflictError as error:
            print("refused" if "has taken the session" in str(error) else "conflict", flush=True)
    give_back()
    await database.close()

asyncio.run(main(sys.argv[1]))
"""
CUT = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE application_name = 'zeus' AND datname = current_database()"
)


def lose_claims(url: str, folder: Path) -> None:
    """What a cut network or somebody who tidies up may do."""
    if url.startswith("postgres"):
        execute(url, CUT)
    for lock in (folder / ".zeus").glob("*.lock"):
        lock.unlink()


def test_a_stopped_process_that_lost_its_session_is_refused_when_it_wakes(
    tmp_path: Path, database_url: str
) -> None:
    async def takes_over() -> list[str]:
        async with log_of(database_url, tmp_path) as (database, log):
            thread = await log.find("session_1")
            with pytest.raises(UsageError, match="running elsewhere"):
                await database.claim("session_1")
            lose_claims(database_url, tmp_path)
            give_back = await claimed_in_time(database)
            await log.append(thread, (await log.read(thread))[-1].seq + 1, "b.2", '"from b"')
            holder.send_signal(signal.SIGCONT)
            answers = holder.communicate("go on\n", timeout=60)[0].splitlines()
            assert [json.loads(entry.payload) for entry in await log.read(thread)] == ["from a", "from b"]
            assert await log.read_edits(thread) == await log.steps(thread) == []
            assert await log.texts(thread) == {}
            await log.append_edits(thread, 1, 2, ['"from b"'])
            await log.append_step(thread, StepEntry(1, 2, "{}"))
            give_back()
            return answers

    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, database_url],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "holding\n"
        os.kill(holder.pid, signal.SIGSTOP)
        try:
            assert asyncio.run(takes_over()) == ["refused"] * 3
        finally:
            holder.send_signal(signal.SIGCONT)
            holder.kill()


async def end(log: ThreadLog, thread: Thread) -> None:
    """What deletes a session."""
    await log.database.run(await removal(log, thread))


async def claimed_in_time(database: Database, session: str = "session_1") -> Callable[[], None]:
    """The claim, once the server has noticed that the connections are gone."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return await database.claim(session)
        except UsageError:
            if time.monotonic() > deadline:
                raise


def until_somebody_waits(url: str) -> None:
    waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    deadline = time.monotonic() + 60
    while not execute(url, waiting):
        assert time.monotonic() < deadline


@pytest.mark.parametrize("name", ["session_1", "session_2"])
async def test_whoever_had_a_deleted_session_cannot_write_into_the_one_that_has_its_key_now(
    tmp_path: Path, database_url: str, name: str
) -> None:
    """Be it of another name or of the same."""
    async with (
        log_of(database_url, tmp_path) as (stale, late),
        log_of(database_url, tmp_path) as (database, log),
    ):
        gone = await late.open("session_1", agent="a")
        give_back = await stale.claim("session_1")
        await late.append(gone, 1, "a.1", '"from a"')
        held = stale.epoch("session_1")
        await end(log, await log.find("session_1"))
        # The lock is lost and its holder lives on.
        give_back()
        stale._held["session_1"] = held
        new = await log.open(name, agent="b")
        if database_url.startswith("sqlite"):
            assert new.key == gone.key, "SQLite gives it again"
        give_new_back = await database.claim(name)
        await log.append(new, 1, "b.1", '"from b"')
        for work in (
            late.append(gone, 2, "a.2", '"from a"', step=StepEntry(1, 1, "{}", texts={"d": "t"})),
            late.append_edits(gone, 1, 1, ['{"handle": "/large_tool_results/x"}']),
            late.append_step(gone, StepEntry(1, 1, "{}", texts={"d": "t"})),
            end(late, gone),
        ):
            with pytest.raises(LogConflictError):
                await work
        await late.touch(gone)
        assert [each.payload for each in await log.read(new)] == ['"from b"']
        assert await log.read_edits(new) == await log.steps(new) == []
        assert await log.texts(new) == {}
        give_new_back()


async def test_every_claim_raises_the_epoch_and_a_reader_raises_none(
    tmp_path: Path, database_url: str
) -> None:
    async with log_of(database_url, tmp_path) as (database, log):
        thread = await log.open("session_1", agent="a")
        epochs: list[int] = []
        for _ in range(3):
            give_back = await database.claim("session_1")
            assert database.epoch("session_1") is None
            await log.steps(thread, last=True)
            await log.read(thread)
            epochs.append(database.epoch("session_1") or 0)
            give_back()
            await log.read(thread)
        assert epochs == list(range(epochs[0], epochs[0] + 3))
        await log.append(thread, 1, "x.1", "{}")


async def test_whoever_claims_waits_for_a_write_that_is_under_way_and_sees_it(
    tmp_path: Path, postgres_url: str
) -> None:
    """The check and the write are one: nobody takes the session in between."""
    async with (
        log_of(postgres_url, tmp_path) as (first, log),
        log_of(postgres_url, tmp_path) as (second, other),
    ):
        thread = await log.open("session_1", agent="a")
        await first.claim("session_1")
        await log.append(thread, 1, "a.1", "{}")
        is_written, may_commit = asyncio.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()
        within = first.write

        async def slowly(work):  # type: ignore[no-untyped-def]
            def held(connection):  # type: ignore[no-untyped-def]
                work(connection)
                loop.call_soon_threadsafe(is_written.set)
                asyncio.run_coroutine_threadsafe(may_commit.wait(), loop).result(60)

            return await within(held)

        first.write = slowly  # type: ignore[method-assign]
        writing = asyncio.create_task(log.append(thread, 2, "a.2", "{}"))
        await is_written.wait()
        execute(postgres_url, CUT + " AND query LIKE '%pg_try_advisory_lock%'")
        give_back = await claimed_in_time(second)
        reading = asyncio.create_task(other.read(thread))
        await asyncio.to_thread(until_somebody_waits, postgres_url)
        assert not reading.done()
        may_commit.set()
        await writing
        assert [entry.id for entry in await reading] == ["a.1", "a.2"]
        first.write = within  # type: ignore[method-assign]
        with pytest.raises(LogConflictError, match="has taken the session"):
            await log.append(thread, 3, "a.3", "{}")
        give_back()


async def test_a_lost_connection_is_no_lost_session(tmp_path: Path, postgres_url: str) -> None:
    async with log_of(postgres_url, tmp_path) as (database, log):
        thread = await log.open("session_1", agent="a")
        await database.claim("session_1")
        for seq in range(1, 4):
            await log.append(thread, seq, f"a.{seq}", "{}")
            execute(postgres_url, CUT)
        assert len(await log.read(thread)) == 3
        assert await database.run(lambda connection: connection.execute(text("SELECT 1")).scalar()) == 1


async def test_the_claims_of_an_agent_share_a_connection_and_end_one_by_one(
    tmp_path: Path, postgres_url: str
) -> None:
    idle = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'"
    async with log_of(postgres_url, tmp_path) as (own, _), log_of(postgres_url, tmp_path) as (other, _):

        async def in_transaction() -> int:
            found = await own.run(lambda connection: connection.execute(text(idle)).scalar_one())
            return int(found)

        ends = [await own.claim(f"session_{number}") for number in range(3)]
        assert await in_transaction() == 1
        for database in (own, other):
            with pytest.raises(BusyError):
                await database.claim("session_1")
        ends[1]()
        (await other.claim("session_1"))()
        with pytest.raises(BusyError):
            await other.claim("session_2")
        ends[0]()
        ends[2]()
        assert await in_transaction() == 0, "without claims, nothing is left open"


async def test_a_claim_that_was_lost_can_be_made_again_and_its_former_end_ends_nothing(
    tmp_path: Path, postgres_url: str
) -> None:
    async with log_of(postgres_url, tmp_path) as (own, _), log_of(postgres_url, tmp_path) as (other, _):
        former = await own.claim("session_1")
        execute(postgres_url, CUT)
        again = await own.claim("session_1")
        former()
        with pytest.raises(BusyError):
            await other.claim("session_1")
        again()
        (await other.claim("session_1"))()
        last = await own.claim("session_2")
        execute(postgres_url, CUT)
        last()
