"""A process that forks agents and kills them: heavy imports once, a real SIGKILL each time.

``python -m tests.support.killing FOLDER RUNS SEED [edits]`` prints one JSON line per run; with ``edits`` a policy drops
messages all the time.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sqlite3
import sys
import time
import traceback
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage

from tests.support.agents import PositionModel, assert_paired, call, calling, events_of, write_agent
from tests.support.planning import RULES
from zeus_runtime import Agent, ModelRequest
from zeus_runtime.context import edit_from_json, fold, read_archive
from zeus_runtime.context.ledger import Step
from zeus_runtime.events import RunCompleted
from zeus_runtime.models.messages import from_payload
from zeus_runtime.store.packed import unpack

HEAVY = (
    "zeus_runtime.agent.graph",
    "zeus_runtime.store.thread_log",
    "zeus_plugins.checkpointers.sqlite.saver",
)
STEPS = 12
CALLS = 3

TOOLS = """
import os
from zeus_runtime import Component, hookimpl, tool

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
    return [Component("probe", create=lambda options, build: [effect])]
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
            over = isinstance(ending, RunCompleted) or "nothing to take up" in getattr(ending, "message", "")
            endings.append("done" if over else f"failed: {ending}")

    endings: list[str] = []
    os.chdir(folder)
    asyncio.run(main())
    # Whole or not there: the kill may come while it is written.
    draft = marker.with_suffix(".draft")
    draft.write_text(endings[0])
    draft.replace(marker)


def finished_calls(folder: Path) -> set[str]:
    """The calls whose result is in the log."""
    database = folder / ".zeus" / "zeus.db"
    if not database.exists():
        return set()
    connection = sqlite3.connect(database, timeout=30)
    try:
        rows = connection.execute("SELECT payload FROM message").fetchall()
    except sqlite3.OperationalError:
        return set()
    finally:
        connection.close()
    return {m["tool_call_id"] for (text,) in rows if (m := json.loads(text))["role"] == "tool"}


def effects(folder: Path) -> Counter[str]:
    file = folder / "effects.txt"
    return Counter(file.read_text().split()) if file.exists() else Counter()


def planning_of(folder: Path) -> dict[str, Any]:
    """What edits and ledger say after a run that policies shaped."""
    connection = sqlite3.connect(folder / ".zeus" / "zeus.db")
    rows = [json.loads(text) for (text,) in connection.execute("SELECT payload FROM message ORDER BY seq")]
    edits = connection.execute("SELECT at_seq, payload FROM context_edit ORDER BY number").fetchall()
    steps = [Step.from_json(unpack(row)) for (row,) in connection.execute("SELECT payload FROM context_step")]
    connection.close()
    history = [from_payload(row) for row in rows]
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


def one_run(folder: Path, dice: random.Random, whole_seconds: float, *, edits: bool) -> dict[str, Any]:
    """Run to the end through as many kills as it takes."""
    config = write_agent(folder, SHEDDING if edits else "", plugin=TOOLS)
    if edits:
        (folder / "policies.py").write_text(RULES)
        config.write_text(config.read_text().replace("[probe.py]", "[probe.py, policies.py]"))
    marker = folder / "marker"
    kills = 0
    repeated: list[str] = []
    while not marker.exists():
        done_before, effects_before = finished_calls(folder), effects(folder)
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
        deadline = time.monotonic() + dice.uniform(0.02, whole_seconds) if kills < 8 else float("inf")
        status = None
        while status is None:
            ended, status_now = os.waitpid(pid, os.WNOHANG)
            if ended:
                status = status_now
            elif time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
                _, status = os.waitpid(pid, 0)
                kills += 1
            else:
                time.sleep(0.0005)
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) != 0:
            return {"kills": kills, "error": "the child failed"}
        now = effects(folder)
        repeated += [name for name in done_before if now[name] != effects_before[name]]
    connection = sqlite3.connect(folder / ".zeus" / "zeus.db")
    rows = connection.execute("SELECT payload FROM message ORDER BY thread, seq").fetchall()
    threads = connection.execute("SELECT COUNT(DISTINCT thread) FROM message").fetchone()[0]
    connection.close()
    names = {"user": "human", "assistant": "ai", "tool": "tool"}
    log = [f"{names[m['role']]} {m['content']}" for (text,) in rows if (m := json.loads(text))]
    return {
        "kills": kills,
        "ending": marker.read_text(),
        "repeated": repeated,
        "log_equal": log == expected_log(),
        "threads": threads,
        "effects": sum(effects(folder).values()),
        **(planning_of(folder) if edits else {}),
    }


def main() -> None:
    folder, runs, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    edits = sys.argv[4:] == ["edits"]
    for module in HEAVY:
        import_module(module)
    dice = random.Random(seed)
    start = time.monotonic()
    one_run(folder / "warm-up", random.Random(0), 60.0, edits=edits)
    whole = time.monotonic() - start
    for number in range(runs):
        print(json.dumps(one_run(folder / str(number), dice, whole, edits=edits)), flush=True)


if __name__ == "__main__":
    main()
