"""Real conversations played through the agent: the log equals the input, whatever interrupts the run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage

from tests.support.agents import PositionModel, assert_paired, events_of, play, write_agent
from zeus_runtime import Agent
from zeus_runtime.events import RunCompleted, RunFailed
from zeus_runtime.plugin.model import ModelError, ModelRequest

DATA = Path(__file__).parents[3] / "shared" / "data" / "trajectories.jsonl"
SAMPLE = Path(__file__).parents[1] / "data" / "trajectories.jsonl"

TOOLS = """
import json
from pathlib import Path
from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.tool import Tool

def create(options, context):
    trajectory = json.loads((context.directory / "trajectory.json").read_text())
    queue = [m["content"] for m in trajectory if m["role"] == "tool"]
    place = context.directory / "place"

    async def answer(**arguments):
        served = int(place.read_text()) if place.exists() else 0
        place.write_text(str(served + 1))
        return queue[served]

    names = {c["function"]["name"] for m in trajectory for c in m.get("tool_calls") or ()}
    schema = {"type": "object"}
    return [Tool(name, "A tool of the recording.", schema, answer, access="read") for name in sorted(names)]

@hookimpl
def register_tools():
    return [Component("recorded", create=create)]
"""


def trajectories() -> list[Any]:
    source = DATA if DATA.exists() else SAMPLE
    rows = [json.loads(line) for line in source.read_text(encoding="utf-8").splitlines()]
    return [
        pytest.param(row["messages"], id=f"{number}-{row['source'].split()[0]}-{row['id']}")
        for number, row in enumerate(rows)
    ]


def expected(messages: list[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    return [_plain(message) for message in messages if message["role"] != "system"]


def _plain(message: Mapping[str, Any]) -> tuple[Any, ...]:
    calls = [
        (each["id"], each["function"]["name"], json.loads(each["function"]["arguments"]))
        for each in message.get("tool_calls") or ()
    ]
    return (message["role"], message.get("content") or "", calls, message.get("tool_call_id"))


def stored(messages: list[BaseMessage]) -> list[tuple[Any, ...]]:
    roles = {"human": "user", "ai": "assistant", "tool": "tool"}
    return [
        (
            roles[message.type],
            message.content,
            [(call["id"], call["name"], call["args"]) for call in getattr(message, "tool_calls", ())],
            getattr(message, "tool_call_id", None),
        )
        for message in messages
    ]


def recorded_answer(messages: list[Mapping[str, Any]], request: ModelRequest) -> AIMessage | ModelError:
    """The assistant's recorded turn at this point; where the recording has none, the run ends with an error."""
    talk = [message for message in messages if message["role"] != "system"]
    at = len(request.messages)
    if at >= len(talk) or talk[at]["role"] != "assistant":
        return ModelError("the recording has no answer here", kind="bad_request")
    calls = [
        {
            "id": each["id"],
            "name": each["function"]["name"],
            "args": json.loads(each["function"]["arguments"]),
            "type": "tool_call",
        }
        for each in talk[at].get("tool_calls") or ()
    ]
    return AIMessage(talk[at].get("content") or "", tool_calls=calls)  # type: ignore[arg-type]


def write_recorded_agent(folder: Path, messages: list[Mapping[str, Any]]) -> Path:
    config = write_agent(folder, plugin=TOOLS, tools="[recorded]")
    (folder / "trajectory.json").write_text(json.dumps(messages))
    return config


# A sixth of them: the test below does the same, with interruptions.
@pytest.mark.parametrize("messages", trajectories()[::6])
async def test_the_log_equals_the_recording(tmp_path: Path, messages: list[Mapping[str, Any]]) -> None:
    model = PositionModel(lambda request: recorded_answer(messages, request))
    session = None
    async with Agent.from_config(
        write_recorded_agent(tmp_path, messages), directory=tmp_path, model=model
    ) as agent:
        for message in messages:
            if message["role"] == "user":
                session = (await play(agent, message["content"], session))[-1].session  # type: ignore[union-attr]
        assert session is not None
        history = list(await agent.history(session))
    assert_paired(history)
    assert stored(history) == expected(messages)


# A third of the many that lie beside a checkout: each has some twenty interruptions.
@pytest.mark.parametrize("messages", trajectories()[:: 3 if DATA.exists() else 1])
async def test_a_run_cut_off_before_every_answer_equals_the_uninterrupted_one(
    tmp_path: Path, messages: list[Mapping[str, Any]]
) -> None:
    failed: set[int] = set()

    def answer(request: ModelRequest) -> AIMessage | ModelError:
        at = len(request.messages)
        if at not in failed:
            failed.add(at)
            return ModelError("cut off", kind="bad_request")
        return recorded_answer(messages, request)

    session = None
    config = write_recorded_agent(tmp_path, messages)
    async with Agent.from_config(config, directory=tmp_path, model=PositionModel(answer)) as agent:
        for message in messages:
            if message["role"] != "user":
                continue
            ending = (await play(agent, message["content"], session))[-1]
            while isinstance(ending, RunFailed) and "cut off" in ending.message:
                ending = (await events_of(agent.resume(ending.session)))[-1]
            assert isinstance(ending, RunCompleted | RunFailed)
            session = ending.session
        assert session is not None
        history = list(await agent.history(session))
    assert stored(history) == expected(messages)
    assert len(failed) >= sum(message["role"] == "assistant" for message in messages)
