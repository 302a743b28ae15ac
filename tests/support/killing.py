"""A process that forks agents and kills them: heavy imports once, a real SIGKILL each time.

``python -m tests.support.killing FOLDER RUNS SEED [edits] [SERVER]`` prints one JSON line per run. With ``edits`` a
policy drops messages all the time; with the URL of a PostgreSQL server each run has a database there instead of a file.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import signal
import sqlite3
import sys
import threading
import time
import traceback
from collections import Counter
from contextlib import closing, nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage

from tests.support.agents import PositionModel, assert_paired, call, calling, events_of, write_agent
from tests.support.asked_once import ask_once
from tests.support.databases import SQLITE_URL, database_on, execute, storage
from tests.support.planning import RULES
from zeus_runtime import Agent
from zeus_runtime.context import edit_from_json, fold, read_archive
from zeus_runtime.context.ledger import StepRecord
from zeus_runtime.events import RunCompleted
from zeus_runtime.models.messages import from_payload
from zeus_runtime.plugin.model import ModelRequest
from zeus_runtime.store.compressed_columns import unpack

HEAVY = (
    "zeus_runtime.run.graph",
    "zeus_runtime.store.thread_log",
    "zeus_plugins.checkpointers.sqlite.saver",
)
HEAVY_ON_A_SERVER = ("sqlalchemy.dialects.postgresql.psycopg", "zeus_plugins.checkpointers.postgres.saver")
STEPS = 12
CALLS = 3

TOOLS = """
import os
from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.tool import tool

@tool(access="write")
async def effect(name: str) -> str:
    \"\"\"Leave a trace.

    Args:
        name: of the trace.
    \"\"\"
    descriptor = os.open("effects.txt", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, (name + "\\n").encode())
    os.close(descriptor)
    return "left " + name

@hookimpl
def register_tools():
    return [Component("probe", create=lambda options, context: [effect])]
"""


SHEDDING = "middlewares: [shed: {trigger: {messages: 14}, keep: 5}]\n"


def answer(request: ModelRequest) -> AIMessage | str:
    answers = [message for message in request.messages if isinstance(message, AIMessage)]
    step = 1 + int(str(answers[-1].tool_calls[0]["id"]).partition("-")[0]) if answers else 0
    if step == STEPS:
        return "done"
    return calling(*(call("effect", f"{step}-{i}", name=f"{step}-{i}") for i in range(CALLS)))


def expected_log() -> list[str]:
    lines = ["human go"]
    for step in range(STEPS):
        lines.append("ai ")
        lines.extend(f"tool left {step}-{i}" for i in range(CALLS))
    return [*lines, "ai done"]


def child(folder: Path, marker: Path) -> None:
    """Begin the run, or take it up if its session is already known."""

    async def main() -> None:
        config = folder / "zeus.yaml"
        async with Agent.from_config(config, directory=folder, model=PositionModel(answer)) as agent:
            session = await agent.latest_session()
            started = session is not None and bool(await agent.history(session))
            events = await events_of(agent.resume(session) if started and session else agent.stream("go"))
            ending = events[-1]
            over = isinstance(ending, RunCompleted) or "nothing to resume" in getattr(ending, "message", "")
            endings.append("done" if over else f"failed: {ending}")

    endings: list[str] = []
    os.chdir(folder)
    asyncio.run(main())
    # Whole or not there: the kill may come while it is written.
    draft = marker.with_suffix(".draft")
    draft.write_text(endings[0])
    draft.replace(marker)


def rows(folder: Path, url: str, query: str) -> list[tuple[Any, ...]]:
    """What a query finds; nothing where the tables are not made yet."""
    if url != SQLITE_URL:
        from psycopg.errors import UndefinedTable

        try:
            return execute(url, query)
        except UndefinedTable:
            return []
    database = folder / ".zeus" / "zeus.db"
    if not database.exists():
        return []
    with closing(sqlite3.connect(database, timeout=30)) as connection:
        try:
            return connection.execute(query).fetchall()
        except sqlite3.OperationalError:
            return []


def await_goodbye(url: str) -> None:
    """Wait until the server has noticed that the killed process is gone."""
    mine = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'zeus' AND datname = current_database()"
    while url != SQLITE_URL and execute(url, mine):
        time.sleep(0.002)


def finished_calls(folder: Path, url: str) -> set[str]:
    """The calls whose result is in the log."""
    payloads = rows(folder, url, "SELECT payload FROM message")
    return {m["tool_call_id"] for (text,) in payloads if (m := json.loads(text))["role"] == "tool"}


def effects(folder: Path) -> Counter[str]:
    file = folder / "effects.txt"
    return Counter(file.read_text().split()) if file.exists() else Counter()


def planning_of(folder: Path, url: str) -> dict[str, Any]:
    """What edits and ledger say after a run that policies shaped."""
    messages = rows(folder, url, "SELECT payload FROM message ORDER BY seq")
    edits = rows(folder, url, "SELECT at_seq, payload FROM context_edit ORDER BY number")
    ledger = rows(folder, url, "SELECT payload FROM context_step")
    steps = [StepRecord.from_json(unpack(row)) for (row,) in ledger]
    history = [from_payload(json.loads(text)) for (text,) in messages]
    admitted = [edit_from_json(payload) for _, payload in edits]
    for step in steps:
        view = fold(history, admitted[: step.edits], step.cursor)
        assert_paired(list(view))
        assert len(view) == step.messages
    (file,) = (folder / ".zeus" / "conversation_history").iterdir()
    archived, problems = read_archive(file.read_bytes())
    gone = {seq: history[seq - 1] for seq in range(1, max(edit.seq for edit in admitted))}
    return {
        "edits": len(edits),
        "decided_once": len({at for at, _ in edits}) == len(edits),
        "answers_in_ledger": sorted(step.cursor + 1 for step in steps)
        == [seq for seq, message in enumerate(history, 1) if message.type == "ai"],
        "recovered": not problems and {each.seq: each.message for each in archived} == gone,
    }


def one_run(
    folder: Path, url: str, dice: random.Random, whole_seconds: float, *, edits: bool, most_kills: int
) -> dict[str, Any]:
    """Run to the end through as many kills as it takes; if any, at the latest when part of the work is done."""
    config = write_agent(folder, storage(url) + (SHEDDING if edits else ""), plugin=TOOLS)
    if edits:
        (folder / "policies.py").write_text(RULES)
        config.write_text(config.read_text().replace("[probe.py]", "[probe.py, policies.py]"))
    marker = folder / "marker"
    kills = 0
    repeated: list[str] = []
    enough: float = dice.randrange(CALLS, STEPS * CALLS // 2) if most_kills else float("inf")
    while not marker.exists():
        await_goodbye(url)
        done_before, effects_before = finished_calls(folder, url), effects(folder)
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                child(folder, marker)
                code = 0
            except BaseException:  # noqa: BLE001 - whatever it is, the parent's report must show it
                traceback.print_exc()
            finally:
                os._exit(code)
        deadline = (
            time.monotonic() + dice.uniform(0.02, whole_seconds) if kills < most_kills else float("inf")
        )
        status = None
        while status is None:
            ended, status_now = os.waitpid(pid, os.WNOHANG)
            if ended:
                status = status_now
            elif time.monotonic() > deadline or (enough < float("inf") and effects(folder).total() >= enough):
                os.kill(pid, signal.SIGKILL)
                _, status = os.waitpid(pid, 0)
                kills += 1
                enough = float("inf")
            else:
                # A shorter wait takes half of a processor from the run that it watches.
                time.sleep(0.002)
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) != 0:
            return {"kills": kills, "error": "the child failed"}
        now = effects(folder)
        repeated += [name for name in done_before if now[name] != effects_before[name]]
    messages = rows(folder, url, "SELECT payload FROM message ORDER BY thread, seq")
    ((threads,),) = rows(folder, url, "SELECT COUNT(DISTINCT thread) FROM message")
    names = {"user": "human", "assistant": "ai", "tool": "tool"}
    log = [f"{names[m['role']]} {m['content']}" for (text,) in messages if (m := json.loads(text))]
    return {
        "kills": kills,
        "ending": marker.read_text(),
        "repeated": repeated,
        "log_equal": log == expected_log(),
        "threads": threads,
        "effects": sum(effects(folder).values()),
        **(planning_of(folder, url) if edits else {}),
    }


def warm_up(folder: Path) -> None:
    """A run in this process itself: what it imports and compiles, no fork has to do again."""
    write_agent(folder, plugin=TOOLS)
    child(folder, folder / "marker")
    assert threading.active_count() == 1, "a fork would lose the other threads"


def main() -> None:
    folder, runs, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    edits = "edits" in sys.argv[4:]
    server = next((each for each in sys.argv[4:] if each.startswith("postgres")), None)
    for module in (*HEAVY, *(HEAVY_ON_A_SERVER if server else ())):
        import_module(module)
    dice = random.Random(seed)

    def run(name: str, seconds: float, most_kills: int) -> dict[str, Any]:
        with database_on(server) if server else nullcontext(SQLITE_URL) as url:
            return one_run(folder / name, url, dice, seconds, edits=edits, most_kills=most_kills)

    ask_once()
    warm_up(folder / "warm-up")
    gc.freeze()
    start = time.monotonic()
    run("measured", 0.0, 0)
    whole = (time.monotonic() - start) / (4 if server else 1)
    for number in range(runs):
        print(json.dumps(run(str(number), whole, 3 if server else 8)), flush=True)


if __name__ == "__main__":
    main()
