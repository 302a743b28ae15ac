"""A process that forks keepers of sessions and kills them: each archives, restores, goes back and prunes until then.

``python -m tests.support.killing_keepers FOLDER KILLS SEED URL`` prints one JSON line per kill.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable, Coroutine
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.support.agents import PositionModel, play, shape, write_agent
from tests.support.asked_once import ask_once
from tests.support.databases import SQLITE_URL, storage
from tests.support.killing import HEAVY, HEAVY_ON_A_SERVER
from zeus_runtime import Agent
from zeus_runtime.config.model import Retention
from zeus_runtime.errors import UsageError
from zeus_runtime.events import RunCompleted
from zeus_runtime.store.branch import line_of
from zeus_runtime.store.thread_log import ThreadLog

TURNS = 4
SESSIONS = 2


def agent_in(folder: Path, url: str) -> Agent:
    config = write_agent(folder, storage(url) + "middlewares: [{history: {max_messages: 2}}]\n")
    return Agent.from_config(config, directory=folder, model=PositionModel(lambda _request: "answer"))


async def make(folder: Path, url: str) -> None:
    async with agent_in(folder, url) as agent:
        for number in range(SESSIONS):
            session = None
            for turn in range(TURNS):
                ending = (await play(agent, f"{number}: {turn} " + "words " * 200, session))[-1]
                assert isinstance(ending, RunCompleted)
                session = ending.session


async def keep_on(folder: Path, url: str, ready: Path, seed: int) -> None:
    """Do one thing after another until the kill."""
    dice = random.Random(seed)
    async with agent_in(folder, url) as agent:
        log = (await agent._open()).log
        names = [each.session for each in await everything(log)]
        done = os.open(ready, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        while True:
            os.write(done, b".")
            session = dice.choice(names)
            try:
                match dice.choice(("archive", "restore", "restore", "rollback", "prune")):
                    case "archive":
                        await agent.archive(session)
                    case "restore":
                        await agent.restore(session)
                    case "rollback":
                        await agent.rollback(session, to=2 * dice.randrange(TURNS) + 1)
                    case "prune":
                        await agent.prune(Retention(max_sessions=1))
            except UsageError:
                continue


async def everything(log: ThreadLog) -> list[Any]:
    return [*await log.sessions(), *await log.sessions(archived=True)]


async def look(folder: Path, url: str) -> dict[str, Any]:
    """What is there, every session restored first."""
    from sqlalchemy import text

    from zeus_runtime.store.rollbacks import rollbacks
    from zeus_runtime.store.snapshots import snapshots

    found: dict[str, Any] = {}
    async with agent_in(folder, url) as agent:
        log = (await agent._open()).log
        for info in sorted(await everything(log), key=lambda each: each.session):
            thread = await log.find(info.session, archived=True)
            entries = await log.read(thread)
            packed = text(f"SELECT COUNT(*) FROM checkpoint_archive WHERE thread = {thread.key}")
            is_packed = await log.database.run(partial(_scalar, packed))
            half = bool(entries) == bool(is_packed)
            if is_packed:
                await agent.restore(info.session)
                entries = await log.read(thread)
            made = await rollbacks(log, thread)
            line = line_of(made)
            left = [(json.loads(each.payload)["role"], each.seq) for each in entries if line.place(each.seq)]
            found[info.session] = {
                "half": half,
                "archived": bool(is_packed),
                "messages": [(each.seq, each.id, each.payload) for each in entries],
                "edits": await log.edit_entries(thread),
                "steps": [(each.number, each.payload) for each in await log.steps(thread)],
                "texts": dict(await log.texts(thread)),
                "rollbacks": [(each.number, each.kept_seq, each.last_seq) for each in made],
                "told": sum(each.reason == "manual" for each in await snapshots(log, thread)) == len(made),
                "view": len(shape(await agent.history(info.session))) == len(left),
                "ends_with": left[-1][0] if left else "",
            }
    return found


def _scalar(query: Any, connection: Any) -> Any:
    return connection.execute(query).scalar()


async def go_on(folder: Path, url: str) -> list[str]:
    """Every session goes on with a prompt."""
    async with agent_in(folder, url) as agent:
        return [
            type((await play(agent, "go on", each.session))[-1]).__name__ for each in await agent.sessions()
        ]


def forked(work: Callable[[], Coroutine[Any, Any, Any]]) -> int:
    """The id of a process that does ``work``."""
    pid = os.fork()
    if pid:
        return pid
    try:
        asyncio.run(work())
    except BaseException:  # noqa: BLE001 - whatever it is, the parent's report must show it
        traceback.print_exc()
    finally:
        os._exit(1)


def main() -> None:
    folder, kills, seed, url = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    for module in (*HEAVY, *(() if url == SQLITE_URL else HEAVY_ON_A_SERVER)):
        import_module(module)
    ask_once()
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    ready = folder / "ready"
    dice = random.Random(seed)
    # Here and not in a fork, so that what it imports is imported once.
    asyncio.run(make(folder, url))
    before = json.loads(json.dumps(asyncio.run(look(folder, url))))
    gc.freeze()
    for number in range(kills):
        ready.unlink(missing_ok=True)
        pid = forked(partial(keep_on, folder, url, ready, seed + number))
        enough = 2 + dice.randrange(6)
        while not ready.exists() or ready.stat().st_size < enough:
            time.sleep(0.0005)
        time.sleep(dice.uniform(0, 0.02))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        now = json.loads(json.dumps(asyncio.run(look(folder, url))))
        same = ("messages", "edits", "steps", "texts")
        report = {
            "sessions": sorted(now) == sorted(before),
            "whole": all(not each["half"] and each["told"] and each["view"] for each in now.values()),
            "same": all(now[name][key] == before[name][key] for name in now for key in same),
            "grown": all(
                now[name]["rollbacks"][: len(before[name]["rollbacks"])] == before[name]["rollbacks"]
                for name in now
            ),
            "ends_with": sorted({each["ends_with"] for each in now.values()}),
            "archived": sum(each["archived"] for each in now.values()),
            "rollbacks": sum(len(each["rollbacks"]) for each in now.values()),
        }
        print(json.dumps(report), flush=True)
        before = now
    print(json.dumps({"went_on": asyncio.run(go_on(folder, url))}), flush=True)


if __name__ == "__main__":
    main()
