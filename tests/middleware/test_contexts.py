"""What exists without a run is planned without one: no middleware is created, and no context holds a gap for later."""

from __future__ import annotations

from dataclasses import MISSING, fields
from pathlib import Path

import pytest

from tests.support.agents import TOOLS, call, calling, play, script, write_agent
from zeus_runtime import Agent, ConfigError
from zeus_runtime.events import ToolCallResult
from zeus_runtime.plugin import PlanContext, RunContext

LIVE = (
    TOOLS
    + """
from zeus_runtime.plugin import OptionsError
from zeus_runtime.plugin.middleware import Middleware

class Live(Middleware):
    def __init__(self, options, context):
        if (context.directory / "broken").exists():
            raise OptionsError("it is broken", remedy="Mend it.")
        self.given = type(context).__name__
        self.counter = context.counter

    @classmethod
    def tools(cls, options, context):
        planned = type(context).__name__
        @tool(access="read")
        async def contexts(run) -> str:
            "Say which contexts there are."
            return f"{planned} {run.middleware(cls).given}"
        @tool(access="read")
        async def others(run) -> str:
            "Ask for the instance of another class."
            return str(run.middleware(Picky))
        return [contexts, others]

class Picky(Middleware):
    @classmethod
    def tools(cls, options, context):
        raise OptionsError("nothing pleases it", remedy="Remove it.")

@hookimpl
def register_middlewares():
    return [Component("live", create=Live), Component("picky", create=Picky)]
"""
)


def test_no_field_is_left_for_later_and_only_services_of_the_config_may_be_absent() -> None:
    for context in (PlanContext, RunContext):
        assert all(each.default is each.default_factory is MISSING for each in fields(context))
        assert [each.name for each in fields(context) if str(each.type).endswith("| None")] == [
            "memory",
            "knowledge",
        ]


async def test_a_plan_creates_no_middleware_and_a_run_creates_its_own(tmp_path: Path) -> None:
    config = write_agent(tmp_path, "middlewares: [live]\n", plugin=LIVE)
    model = script(calling(call("contexts", "a"), call("others", "b")), "done")
    async with Agent.from_config(config, directory=tmp_path, model=model) as agent:
        assert [each.tool.name for each in agent.plan.tools][-2:] == ["contexts", "others"]
        events = await play(agent, "go")
        told, refused = [each for each in events if isinstance(each, ToolCallResult)]
        assert told.content == "PlanContext RunContext"
        assert "the tool 'others' was not given by a Picky" in refused.content
        (tmp_path / "broken").touch()
        assert Agent.from_config(config, directory=tmp_path).plan
        with pytest.raises(ConfigError, match=r"zeus\.yaml:6:15: options: it is broken"):
            await play(agent, "go")


def test_options_that_the_tools_of_a_middleware_refuse_have_their_position(tmp_path: Path) -> None:
    config = write_agent(tmp_path, "middlewares: [live, picky]\n", plugin=LIVE)
    with pytest.raises(ConfigError, match=r"zeus\.yaml:6:21: options: nothing pleases it"):
        Agent.from_config(config, directory=tmp_path)


def test_a_missing_summary_prompt_is_found_by_the_plan(tmp_path: Path) -> None:
    config = write_agent(tmp_path, "middlewares:\n  - summarization: {prompt: MINE.md}\n")
    with pytest.raises(
        ConfigError, match=r"zeus\.yaml:7:29: options: summarization: no Home has .* MINE\.md"
    ):
        Agent.from_config(config, directory=tmp_path)
