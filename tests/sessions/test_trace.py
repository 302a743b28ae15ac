"""The trace of a session whose calls end in another order than they were made."""

from __future__ import annotations

from pathlib import Path

from tests.support.agents import call, calling, play, script, write_agent
from zeus_runtime import Agent
from zeus_runtime.sessions.trace import Span, trace_of

WRITER = '''
from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.tool import tool


@tool(access="write")
async def shout(text: str) -> str:
    """Shout."""
    return text.upper()


@tool(access="read")
async def look() -> str:
    """Look."""
    return "seen"


@hookimpl
def register_tools():
    return [Component("both", create=lambda options, context: [shout, look])]
'''


async def test_a_result_belongs_to_its_call_while_an_earlier_call_waits(tmp_path: Path) -> None:
    config = write_agent(tmp_path, "middlewares: [approve]\n", plugin=WRITER, tools="[both]")
    model = script(calling(call("shout", "waits", text="hey"), call("look", "ends")), "done")
    async with Agent.from_config(config, directory=tmp_path, model=model) as agent:
        session = (await play(agent, "go"))[-1].session
        (run,) = await trace_of(await agent.log(), session)
    calls: list[Span] = [each for each in run.spans if each.kind == "tool_call"]
    assert [(each.name, each.state, each.end_ms is None) for each in calls] == [
        ("shout", "", True),
        ("look", "ok", False),
    ]
