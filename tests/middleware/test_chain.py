"""The six methods of a middleware, in the order of the YAML."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage

from tests.support.agents import TOOLS, call, calling, play, script, write_agent
from zeus_runtime import Agent
from zeus_runtime.events import RunCompleted, RunFailed, Text, ToolCallResult
from zeus_runtime.plugin.model import ModelPiece, ModelRequest, ModelResponse, TextDelta, Usage

LAYERS = (
    TOOLS
    + '''
from dataclasses import dataclass
from zeus_runtime.plugin.middleware import Middleware, Section

@dataclass(frozen=True)
class Options:
    tag: str

TRACE = []

class Layer(Middleware):
    def __init__(self, options, context):
        self.tag = options.tag if options else "P"
    @classmethod
    def tools(cls, options, context):
        @tool(name=f"tool_{options.tag if options else 'P'}", access="read")
        async def own(run) -> str:
            """The layer's own tool."""
            return run.middleware(cls).tag
        return [own]
    async def sections(self, turn):
        return {Section.RESOURCES: f"resource {self.tag} of step {turn.step}"}
    async def wrap_run(self, turn, call_next):
        TRACE.append(f"run {self.tag}")
        await call_next(turn)
        TRACE.append(f"ran {self.tag}")
    async def wrap_model_call(self, request, call_next):
        TRACE.append(f"model {self.tag}")
        seen = [*request.settings.get("seen", []), self.tag]
        return await call_next(request.override(settings={**request.settings, "seen": seen}))
    async def wrap_tool_call(self, call, call_next):
        result = await call_next(call)
        return ToolResult(f"{self.tag}({result.content})", state=result.state, is_error=result.is_error)

class Rude(Middleware):
    async def sections(self, turn):
        return {Section.CORE: "I am the core now"}

class Silent(Middleware):
    async def wrap_run(self, turn, call_next):
        return None

class Twice(Middleware):
    async def wrap_model_call(self, request, call_next):
        await call_next(request.override(purpose="summary"))
        return await call_next(request)

class Broken(Middleware):
    def __init__(self, options, context):
        self.where = options.tag
    async def wrap_model_call(self, request, call_next):
        if self.where == "model":
            raise KeyError("oops")
        return await call_next(request)
    async def wrap_tool_call(self, call, call_next):
        if self.where == "tool":
            raise KeyError("oops")
        return await call_next(call)
    async def sections(self, turn):
        if self.where == "sections":
            raise KeyError("oops")
        return {}
    async def edits(self, view, budget):
        if self.where == "edits":
            raise KeyError("oops")
        return ()

class Turncoat(Middleware):
    async def wrap_run(self, turn, call_next):
        await call_next(turn.override(mode="ask"))

@hookimpl
def register_middlewares():
    return [
        Component("turncoat", create=Turncoat),
        Component("outer", create=Layer, options=Options),
        Component("inner", create=Layer, options=Options),
        Component("rude", create=Rude),
        Component("broken", create=Broken, options=Options),
        Component("twice", create=Twice),
        Component("silent", create=Silent),
        Component("probe", create=Layer),
    ]
'''
)


async def test_the_first_line_is_outermost_for_runs_models_and_tools(tmp_path: Path) -> None:
    config = write_agent(tmp_path, "middlewares: [outer: {tag: A}, inner: {tag: B}]\n", plugin=LAYERS)
    model = script(calling(call("echo", "a", text="x"), call("tool_B", "b")), "done")
    async with Agent.from_config(config, directory=tmp_path, model=model) as agent:
        events = await play(agent, "go")
    assert isinstance(events[-1], RunCompleted)
    assert model.requests[0].settings["seen"] == ["A", "B"]
    results = {e.call_id: e.content for e in events if isinstance(e, ToolCallResult)}
    assert results == {"a": "A(B(echo: x))", "b": "A(B(B))"}
    assert "resource A of step 0\n\nresource B of step 0" in model.requests[0].system
    assert "resource A of step 1" in model.requests[1].system


async def test_the_stable_sections_are_the_same_bytes_at_every_step(tmp_path: Path) -> None:
    config = write_agent(tmp_path, "middlewares: [outer: {tag: A}]\n", plugin=LAYERS)
    model = script(calling(call("echo", "a", text="x")), "done", "again")
    async with Agent.from_config(config, directory=tmp_path, model=model) as agent:
        first = await agent.run("go")
        await agent.run("more", session=first.session)
    stable = {request.system[: request.stable_system_length] for request in model.requests}
    assert len(model.requests) == 3
    assert len(stable) == 1
    assert len(stable.pop()) > 500


async def test_a_middleware_cannot_write_into_the_stable_sections(tmp_path: Path) -> None:
    config = write_agent(tmp_path, "middlewares: [rude]\n", plugin=LAYERS)
    async with Agent.from_config(config, directory=tmp_path, model=script("hi")) as agent:
        ending = (await play(agent, "go"))[-1]
    assert isinstance(ending, RunFailed)
    assert "'rude'" in ending.message
    assert "section core is stable" in ending.message


@pytest.mark.parametrize("where", ["model", "tool", "sections", "edits"])
async def test_a_broken_middleware_is_named_and_the_thread_goes_on(tmp_path: Path, where: str) -> None:
    config = write_agent(tmp_path, f"middlewares: [broken: {{tag: {where}}}]\n", plugin=LAYERS)
    model = script(calling(call("echo", "a", text="x")), "done")
    async with Agent.from_config(config, directory=tmp_path, model=model) as agent:
        ending = (await play(agent, "go"))[-1]
    assert isinstance(ending, RunFailed)
    assert ending.code == "middleware_failed"
    assert "'broken' failed: KeyError" in ending.message
    whole = write_agent(tmp_path, "", plugin=LAYERS)
    async with Agent.from_config(whole, directory=tmp_path, model=model) as agent:
        events = [event async for event in agent.resume(ending.session)]
    assert isinstance(events[-1], RunCompleted)


async def test_the_model_failing_inside_a_middleware_is_not_blamed_on_it(tmp_path: Path) -> None:
    config = write_agent(tmp_path, "middlewares: [outer: {tag: A}]\n", plugin=LAYERS)
    async with Agent.from_config(config, directory=tmp_path, model=script(OSError("no route"))) as agent:
        ending = (await play(agent, "go"))[-1]
    assert isinstance(ending, RunFailed)
    assert ending.code == "internal"
    assert "OSError: no route" in ending.message


async def test_a_run_that_a_middleware_keeps_from_the_model_has_no_answer(tmp_path: Path) -> None:
    config = write_agent(tmp_path, "middlewares: [silent]\n", plugin=LAYERS)
    async with Agent.from_config(config, directory=tmp_path, model=script("hi")) as agent:
        result = await agent.run("the user's own words")
    assert (result.answer, result.steps) == ("", 0)


async def test_a_middleware_named_like_a_toolset_does_not_take_its_tools_away(tmp_path: Path) -> None:
    config = write_agent(tmp_path, "middlewares: [probe]\n", plugin=LAYERS)
    model = script(calling(call("echo", "a", text="x"), call("tool_P", "b")), "done")
    async with Agent.from_config(config, directory=tmp_path, model=model) as agent:
        planned = [tool.tool.name for tool in agent.plan.tools]
        events = await play(agent, "go")
    assert [schema.name for schema in model.requests[0].tools] == planned
    assert not any(event.is_error for event in events if isinstance(event, ToolCallResult))


async def test_every_model_call_of_a_middleware_is_counted_and_only_the_turns_own_text_is_shown(
    tmp_path: Path,
) -> None:
    class Paid:
        name = "gpt-4o"

        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
            yield TextDelta(request.purpose)
            yield ModelResponse(AIMessage(request.purpose), usage=Usage(1_000, 10))

    config = write_agent(tmp_path, "middlewares: [twice]\n", plugin=LAYERS)
    async with Agent.from_config(config, directory=tmp_path, model=Paid()) as agent:
        events = await play(agent, "go")
    ending = events[-1]
    assert isinstance(ending, RunCompleted)
    assert (ending.prompt_tokens, ending.completion_tokens, ending.steps) == (2_000, 20, 1)
    assert [event.text for event in events if isinstance(event, Text)] == ["turn"]


async def test_a_turn_cannot_be_changed_on_its_way_in(tmp_path: Path) -> None:
    config = write_agent(tmp_path, "middlewares: [turncoat]\n", plugin=LAYERS)
    async with Agent.from_config(config, directory=tmp_path, model=script("hi")) as agent:
        ending = (await play(agent, "go"))[-1]
    assert isinstance(ending, RunFailed)
    assert "wrap_run passed on another turn" in ending.message
