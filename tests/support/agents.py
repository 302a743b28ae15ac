"""Agents for tests: a YAML file, a plugin file beside it, and a scripted model."""

from __future__ import annotations

import textwrap
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from zeus_runtime import Agent
from zeus_runtime.events import Event
from zeus_runtime.plugin.model import ModelPiece, ModelRequest, ModelResponse, TextDelta, ToolCallDelta
from zeus_runtime.tools.approval import Decision, PendingApproval

Answer = str | AIMessage | BaseException


class PositionModel:
    """A model that answers by the conversation's position, so that a resumed run goes on where it was.

    Args:
        answer: gets the request, gives the answer; an exception is raised.
    """

    name = "scripted"

    def __init__(self, answer: Callable[[ModelRequest], Answer]) -> None:
        self._answer = answer
        self.requests: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        self.requests.append(request)
        answer = self._answer(request)
        if isinstance(answer, BaseException):
            raise answer
        message = AIMessage(answer) if isinstance(answer, str) else answer
        if message.content:
            yield TextDelta(str(message.content))
        for index, each in enumerate(message.tool_calls):
            yield ToolCallDelta(index, each["id"], each["name"], "")
        yield ModelResponse(message)


def script(*answers: Answer) -> PositionModel:
    """A model that gives ``answers`` in order, one for each assistant message already there."""

    def answer(request: ModelRequest) -> Answer:
        said = sum(message.type == "ai" for message in request.messages)
        return answers[said]

    return PositionModel(answer)


def call(name: str, call_id: str, /, **arguments: Any) -> dict[str, Any]:
    """A tool call as a LangChain message has it."""
    return {"name": name, "args": arguments, "id": call_id, "type": "tool_call"}


def calling(*calls: Mapping[str, Any], text: str = "") -> AIMessage:
    """An answer that calls tools."""
    return AIMessage(text, tool_calls=[dict(each) for each in calls])  # type: ignore[misc]


class Answering:
    """A user who approves with given arguments, and remembers what was asked."""

    def __init__(self, **arguments: Any) -> None:
        self.arguments = arguments
        self.asked: list[PendingApproval] = []

    async def ask(self, pending: PendingApproval) -> Decision:
        self.asked.append(pending)
        return Decision("approve", arguments=self.arguments or None)


TOOLS = '''
from pathlib import Path
from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.tool import Tool, ToolResult, tool

@tool(access="read")
async def echo(text: str) -> str:
    """Say it back.

    Args:
        text: what to say.
    """
    return f"echo: {text}"

@tool(access="write")
async def record(text: str) -> str:
    """Write a line to the file of effects, which is beside this one.

    Args:
        text: the line.
    """
    with Path(__file__).with_name("effects.txt").open("a") as file:
        file.write(text + "\\n")
    return f"recorded: {text}"

@tool(access="read")
async def fail() -> str:
    """Always fails."""
    raise RuntimeError("the disk is on fire")

@tool(access="read")
async def keep(run, value: str) -> ToolResult:
    """Keep a value with the thread and tell the former one.

    Args:
        value: what to keep.
    """
    return ToolResult(f"was {run.state('kept')}", state={"kept": value})

@hookimpl
def register_tools():
    return [Component("probe", create=lambda options, context: [echo, record, fail, keep])]
'''


def write_agent(folder: Path, yaml: str = "", *, plugin: str = TOOLS, tools: str = "[probe]") -> Path:
    """A config file in ``folder`` with the probe tools; ``yaml`` adds keys.

    Scripted models repeat calls to fill a conversation: without ``limits`` of its own nothing stops them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "probe.py").write_text(plugin)
    config = folder / "zeus.yaml"
    head = f"version: 1\nname: test\nmodel: gpt-4o\ntools: {tools}\nplugins: {{files: [probe.py]}}\n"
    unlimited = "" if "limits:" in yaml else "\nlimits: {repeated_calls: null}\n"
    config.write_text(head + textwrap.dedent(yaml) + unlimited)
    return config


async def events_of(stream: AsyncIterator[Event]) -> list[Event]:
    """All events of a run."""
    return [event async for event in stream]


async def play(agent: Agent, prompt: str, session: str | None = None) -> list[Event]:
    """One run's events."""
    return await events_of(agent.stream(prompt, session=session))


def shape(messages: Sequence[BaseMessage]) -> list[tuple[str, str]]:
    """A conversation as (type, text) pairs."""
    return [(message.type, str(message.content)) for message in messages]


def assert_paired(messages: Sequence[BaseMessage]) -> None:
    """Every tool call is followed by its results, and no result is without its call."""
    place = 0
    while place < len(messages):
        message = messages[place]
        assert message.type != "tool", f"message {place + 1} is a result without a call"
        place += 1
        if isinstance(message, AIMessage):
            for each in [*message.tool_calls, *message.invalid_tool_calls]:
                result = messages[place]
                assert result.type == "tool", f"the call {each['id']} has no result"
                assert result.tool_call_id == each["id"]  # type: ignore[attr-defined]
                place += 1
