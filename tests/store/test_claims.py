"""A session that runs is claimed: nobody else runs it meanwhile, and a killed process claims nothing."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import text

from tests.support.agents import PositionModel, call, calling, events_of, play, script, write_agent
from tests.support.databases import execute, storage
from zeus_runtime import Agent
from zeus_runtime.errors import BusyError, RunError, UsageError
from zeus_runtime.events import RunCompleted
from zeus_runtime.plugin.model import ModelPiece, ModelRequest
from zeus_runtime.store import postgres
from zeus_runtime.store.database import Database
from zeus_runtime.store.session_lock import claim

HOLDER = """
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from zeus_runtime.store.database import Database
from zeus_runtime.store.session_lock import claim
assert claim(Path(sys.argv[1])) is not None
print("held", flush=True)
sys.stdin.read()
"""


def test_a_claim_excludes_every_other_until_it_is_given_back(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    give_back = claim(file)
    assert give_back is not None
    assert claim(file) is None
    give_back()
    again = claim(file)
    assert again is not None
    again()
    assert not file.exists()


def test_another_process_holds_it_until_it_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert claim(file) is None
        holder.kill()
        holder.wait()
    assert file.exists()
    give_back = claim(file)
    assert give_back is not None
    give_back()


class Held:
    """A model that answers when ``gate`` opens."""

    name = "held"

    def __init__(self, model: PositionModel, gate: asyncio.Event) -> None:
        self._model, self._gate = model, gate

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        await self._gate.wait()
        async for piece in self._model.stream(request):
            yield piece


async def test_a_session_that_runs_elsewhere_is_left_alone(tmp_path: Path, database_url: str) -> None:
    config = write_agent(tmp_path, storage(database_url))
    answers = (calling(call("echo", "a", text="x")), "done", "next")
    gate = asyncio.Event()
    async with (
        Agent.from_config(config, directory=tmp_path, model=script(*answers)) as here,
        Agent.from_config(config, directory=tmp_path, model=Held(script(*answers), gate)) as elsewhere,
    ):
        stream = elsewhere.stream("go")
        session = (await anext(stream)).session  # type: ignore[union-attr]
        for attempt in (here.run("too", session=session), here.delete_session(session)):
            with pytest.raises(UsageError, match="is running elsewhere"):
                await attempt
        with pytest.raises(UsageError, match="is running elsewhere"):
            await events_of(here.resume(session))
        gate.set()
        assert isinstance((await events_of(stream))[-1], RunCompleted)
        assert isinstance((await play(here, "and now", session))[-1], RunCompleted)
    assert not list((tmp_path / ".zeus").glob("*.lock"))


async def test_a_session_of_a_database_in_memory_is_claimed_once(tmp_path: Path) -> None:
    database = Database("sqlite://", directory=tmp_path)
    try:
        give_back = await database.claim("s")
        with pytest.raises(BusyError):
            await database.claim("s")
        give_back()
        (await database.claim("s"))()
    finally:
        await database.close()


async def test_a_claim_that_is_cancelled_while_a_server_makes_it_is_released(
    tmp_path: Path, postgres_url: str
) -> None:
    database = Database(postgres_url, directory=tmp_path)
    other = Database(postgres_url, directory=tmp_path)
    server = database.server
    assert server is not None
    try:
        with server._claiming:  # the server does not answer yet
            claiming = asyncio.create_task(database.claim("s"))
            await asyncio.sleep(0.05)
            claiming.cancel()
            with pytest.raises(asyncio.CancelledError):
                await claiming
        # One claim after the other: this one is made when the cancelled one was.
        (await database.claim("t"))()
        async with asyncio.timeout(5):
            while True:
                try:
                    (await other.claim("s"))()
                    break
                except BusyError:
                    await asyncio.sleep(0.01)
    finally:
        await database.close()
        await other.close()


async def test_a_claim_that_fails_leaves_the_others_to_their_holder(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = (Database(postgres_url, directory=tmp_path) for _ in range(2))
    try:
        held = [await ours.claim(each) for each in ("a", "b")]
        with monkeypatch.context() as broken:
            # Like a statement that the server cancels, or that finds no room for a lock: the connection stays.
            broken.setattr(postgres, "_CLAIM", postgres._CLAIM.replace("SELECT", "SELECT 1 / 0,"))
            with pytest.raises(RunError, match="division by zero"):
                await ours.claim("c")
            with pytest.raises(RunError, match="division by zero"):
                await ours.claim("c")
        for each in ("a", "b"):
            with pytest.raises(BusyError):
                await theirs.claim(each)
        held.append(await ours.claim("c"))
        with pytest.raises(BusyError):
            await theirs.claim("c")
        for give_back in held:
            give_back()
        for each in ("a", "b", "c"):
            (await theirs.claim(each))()
        here = "database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        locks = f"SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND {here}"
        assert execute(postgres_url, locks) == [(0,)]
        # Nothing is left of it: a first claim may fail too.
        with monkeypatch.context() as broken:
            broken.setattr(postgres, "_CLAIM", postgres._CLAIM.replace("SELECT", "SELECT 1 / 0,"))
            with pytest.raises(RunError, match="division by zero"):
                await ours.claim("a")
        (await ours.claim("a"))()
    finally:
        await ours.close()
        await theirs.close()


async def test_a_server_that_answers_late_keeps_the_event_loop_for_a_moment_only(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = (Database(postgres_url, directory=tmp_path) for _ in range(2))
    quick = postgres._RELEASE
    monkeypatch.setattr(postgres, "_RELEASE", text(f"{quick.text}, pg_sleep(2)"))
    try:
        give_back = await ours.claim("s")
        other = await ours.claim("t")
        begun = time.monotonic()
        give_back()
        other()
        assert time.monotonic() - begun < 1
        monkeypatch.setattr(postgres, "_RELEASE", quick)
        # This process claims it again once the server has released it, and is not told that it runs elsewhere.
        (await ours.claim("s"))()
        (await theirs.claim("s"))()
        (await theirs.claim("t"))()
    finally:
        await ours.close()
        await theirs.close()
