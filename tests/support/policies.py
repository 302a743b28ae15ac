"""Agents whose tools give as much as they are asked for, to see what the policies make of it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from tests.support.agents import Answer, PositionModel, play, write_agent
from zeus_runtime import Agent
from zeus_runtime.events import Event
from zeus_runtime.plugin.model import ModelRequest

GIVING = '''
from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.tool import tool

@tool(access="read")
async def give(lines: int, text: str = "line", name: str = "") -> str:
    """Give many lines.

    Args:
        lines: how many.
        text: each of them begins with.
        name: nothing.
    """
    return "\\n".join(f"{text} {number}" for number in range(1, lines + 1))

@tool(access="read", replayable_result=True)
async def look(at: str, lines: int = 100) -> str:
    """Look at something; each line is two tokens or so.

    Args:
        at: what.
        lines: how many lines it has.
    """
    return "\\n".join(f"{at} {number}" for number in range(1, lines + 1))

@tool(access="write", replayable_arguments=("body",))
async def store(name: str, body: str, note: str = "") -> str:
    """Store a text.

    Args:
        name: under which name.
        body: the text.
        note: a remark.
    """
    return "stored"

@tool(access="read")
async def fail(text: str) -> str:
    """Always fails."""
    raise RuntimeError("the disk is on fire")

@hookimpl
def register_tools():
    return [Component("giving", create=lambda options, context: [give, look, store, fail])]
'''


@dataclass(frozen=True)
class Talk:
    """What a session gave.

    Args:
        requests: what the model was sent, turn by turn.
        events: of all runs.
        history: the messages as they are stored.
        session: its id.
    """

    requests: Sequence[ModelRequest]
    events: Sequence[Event]
    history: Sequence[BaseMessage]
    session: str

    @property
    def last(self) -> Sequence[BaseMessage]:
        """The messages of the last request."""
        return list(self.requests[-1].messages)


async def talk(
    folder: Path,
    yaml: str,
    *answers: Answer,
    prompts: Sequence[str] = ("go",),
    tools: str = "[giving, filesystem]",
    model: str = "gpt-4o",
    session: str | None = None,
) -> Talk:
    """A session with a model that gives ``answers`` one after the other."""
    given = list(answers)
    scripted = PositionModel(lambda request: given.pop(0))
    config = write_agent(folder, yaml, plugin=GIVING, tools=tools)
    config.write_text(config.read_text().replace("model: gpt-4o\n", f"model: {model}\n", 1))
    events: list[Event] = []
    async with Agent.from_config(config, directory=folder, model=scripted) as agent:
        for prompt in prompts:
            events += await play(agent, prompt, session)
            session = events[-1].session  # type: ignore[union-attr]
            assert events[-1].type == "complete", events[-1]
        assert session is not None
        history = list(await agent.history(session))
    requests = [request for request in scripted.requests if request.purpose == "turn"]
    return Talk(requests, events, history, session)


def texts(messages: Sequence[BaseMessage]) -> list[str]:
    """What each message says."""
    return [str(message.content) for message in messages]


def arguments(messages: Sequence[BaseMessage]) -> list[Mapping[str, Any]]:
    """The arguments of every call."""
    return [
        call["args"] for message in messages if isinstance(message, AIMessage) for call in message.tool_calls
    ]


def moved_prefixes(requests: Sequence[ModelRequest]) -> int:
    """How often a request does not begin with all messages of the one before."""
    sent = [[(type(m), m.content, getattr(m, "tool_calls", None)) for m in r.messages] for r in requests]
    return sum(after[: len(before)] != before for before, after in itertools.pairwise(sent))
