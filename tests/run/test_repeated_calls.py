"""A model that goes in circles is told so, and stopped; one that polls is left alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from tests.support.agents import PositionModel, call, calling, play, script, write_agent
from zeus_runtime import Agent
from zeus_runtime.events import Event, Notice, RunCompleted, RunFailed, ToolCallResult
from zeus_runtime.plugin.model import ModelRequest
from zeus_runtime.run.repeated_calls import Repeats, repetitions

STATES = st.integers(0, 2)


@given(st.lists(STATES, max_size=6), st.lists(STATES, min_size=1, max_size=4), st.integers(1, 12))
def test_a_cycle_is_counted_whatever_came_before_it(before: list[int], cycle: list[int], times: int) -> None:
    assert repetitions([*before, *cycle * times]) >= times


@given(st.lists(STATES, max_size=40))
def test_what_is_counted_is_there(steps: list[int]) -> None:
    count = repetitions(steps)
    assert (count == 0) == (not steps)
    assert not steps or any(
        steps[len(steps) - period * count :] == steps[len(steps) - period :] * count
        for period in range(1, 5)
        if period * count <= len(steps)
    )


@given(st.lists(st.integers(), unique=True, min_size=1))
def test_steps_that_all_differ_repeat_nothing(steps: list[int]) -> None:
    assert repetitions(steps) == 1


@pytest.mark.parametrize("period", [5, 6])
def test_a_longer_cycle_is_not_noticed(period: int) -> None:
    assert repetitions(list(range(period)) * 5) == 1


def endless(*cycle: AIMessage) -> PositionModel:
    """A model that asks the same again and again."""

    def answer(request: ModelRequest) -> AIMessage:
        said = sum(message.type == "ai" for message in request.messages)
        calls = [{**each, "id": f"{each['id']}-{said}"} for each in cycle[said % len(cycle)].tool_calls]
        return calling(*calls)

    return PositionModel(answer)


async def circling(folder: Path, model: PositionModel, yaml: str = "", **write: Any) -> list[Event]:
    config = write_agent(folder, yaml, **write)
    async with Agent.from_config(config, directory=folder, model=model) as agent:
        return await play(agent, "go")


def results(events: Sequence[Event]) -> list[str]:
    return [event.content for event in events if isinstance(event, ToolCallResult)]


LIMITED = "limits: {max_steps: 50}\n"
"""The default limit."""

A = calling(call("echo", "a", text="a"))
B = calling(call("echo", "b", text="b"))
C = calling(call("fail", "c"))
D = calling(call("nothing", "d"))


@pytest.mark.parametrize("cycle", [(A,), (A, B), (A, B, C), (A, B, C, D)], ids=len)
async def test_a_repeated_call_warns_at_the_third_and_ends_the_run_at_the_limit(
    tmp_path: Path, cycle: tuple[AIMessage, ...]
) -> None:
    events = await circling(tmp_path, endless(*cycle), "limits: {repeated_calls: 5}\n")
    ending = events[-1]
    assert isinstance(ending, RunFailed)
    assert (ending.code, ending.exit_code) == ("limit", 6)
    assert "limits.repeated_calls" in ending.message
    name = cycle[-1].tool_calls[0]["name"]
    assert name in ending.message
    contents = results(events)
    assert len(contents) == 5 * len(cycle)
    first = 3 * len(cycle) - 1  # the call that ends the third round
    warned = [place for place, content in enumerate(contents) if content.startswith("[Repetition")]
    assert min(warned) == first
    assert contents[first].startswith("[Repetition 3:")
    assert "ends at 5" in contents[first]
    told = [event for event in events if isinstance(event, Notice) and event.code == "repeated_call"]
    assert told


async def test_the_limit_is_eight_unless_the_yaml_says_otherwise(tmp_path: Path) -> None:
    assert len(results(await circling(tmp_path, endless(A), "limits: {max_steps: 50}\n"))) == 8


async def test_null_neither_warns_nor_ends(tmp_path: Path) -> None:
    model = script(*(calling(call("echo", f"c{n}", text="a")) for n in range(20)), "done")
    events = await circling(tmp_path, model, "limits: {repeated_calls: null}\n")
    assert isinstance(events[-1], RunCompleted)
    assert set(results(events)) == {"echo: a"}


CHANGING = '''
from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.tool import tool

def make(options, context):
    polls = []

    @tool(access="read")
    async def poll() -> str:
        """How far the work is."""
        polls.append(1)
        return f"{len(polls)} %"

    return [poll]

@hookimpl
def register_tools():
    return [Component("probe", create=make)]
'''


async def test_polling_whose_result_changes_is_no_repetition(tmp_path: Path) -> None:
    model = script(*(calling(call("poll", f"c{n}")) for n in range(20)), "done")
    events = await circling(tmp_path, model, LIMITED, plugin=CHANGING)
    assert isinstance(events[-1], RunCompleted)
    assert not any("Repetition" in content for content in results(events))


async def test_other_arguments_are_another_call(tmp_path: Path) -> None:
    model = script(*(calling(call("echo", f"c{n}", text=str(n))) for n in range(20)), "done")
    assert isinstance((await circling(tmp_path, model, LIMITED))[-1], RunCompleted)


async def test_the_same_call_twice_in_one_answer_is_one_step(tmp_path: Path) -> None:
    many = calling(*(call("echo", f"c{n}", text="a") for n in range(10)))
    assert isinstance((await circling(tmp_path, script(many, "done"), LIMITED))[-1], RunCompleted)


async def test_parallel_calls_that_repeat_are_each_warned(tmp_path: Path) -> None:
    both = calling(call("echo", "a", text="a"), call("echo", "b", text="b"))
    events = await circling(tmp_path, endless(both), "limits: {repeated_calls: 4}\n")
    assert [content[:14] for content in results(events)] == ["echo: a", "echo: b"] * 2 + [
        "[Repetition 3:"
    ] * 2 + [
        "echo: a",
        "echo: b",
    ]


async def test_a_warning_does_not_make_the_result_a_new_one_after_a_restart(tmp_path: Path) -> None:
    """Killed after every step, the run stops where it would have stopped: the count is read from the log."""
    config = write_agent(tmp_path, "limits: {repeated_calls: 6, max_steps: 1}\n")
    model, session, contents = endless(A), None, []
    for _ in range(12):
        async with Agent.from_config(config, directory=tmp_path, model=model) as agent:
            events = await play(agent, "go" if session is None else None, session)  # type: ignore[arg-type]
        contents += results(events)
        ending = events[-1]
        assert isinstance(ending, RunFailed)
        session = ending.session
        if "repeated_calls" in ending.message:
            break
    assert len(contents) == 6


async def test_a_new_prompt_starts_the_count_anew(tmp_path: Path) -> None:
    config = write_agent(tmp_path, "limits: {repeated_calls: 4}\n")
    async with Agent.from_config(config, directory=tmp_path, model=endless(A)) as agent:
        first = await play(agent, "go")
        second = await play(agent, "again", first[-1].session)  # type: ignore[union-attr]
    assert len(results(second)) == len(results(first)) == 4


async def test_after_the_limit_a_higher_one_goes_on(tmp_path: Path) -> None:
    config = write_agent(tmp_path, "limits: {repeated_calls: 3}\n")
    async with Agent.from_config(config, directory=tmp_path, model=endless(A)) as agent:
        session = (await play(agent, "go"))[-1].session  # type: ignore[union-attr]
        same = (await play(agent, None, session))[-1]  # type: ignore[arg-type]
    assert isinstance(same, RunFailed)
    assert "repeated_calls" in same.message
    config = write_agent(tmp_path, "limits: {repeated_calls: null}\n")
    model = script(*[A] * 3, "done")
    async with Agent.from_config(config, directory=tmp_path, model=model) as agent:
        assert isinstance((await play(agent, None, session))[-1], RunCompleted)  # type: ignore[arg-type]


async def test_a_sub_agent_has_a_count_of_its_own(tmp_path: Path) -> None:
    def answer(request: ModelRequest) -> str | AIMessage:
        said = sum(message.type == "ai" for message in request.messages)
        if any(schema.name == "task" for schema in request.tools):
            made = call("task", f"t{said}", agent="helper", prompt=f"part {said}", description="work")
            return calling(made) if said < 3 else "done"
        return (
            calling(call("echo", f"c{said}", text="a")) if said < 3 else f"part {request.messages[0].content}"
        )

    yaml = (
        "agents: {helper: {description: helps, overrides: {tools: [probe]}}}\nlimits: {repeated_calls: 4}\n"
    )
    events = await circling(tmp_path, PositionModel(answer), yaml, tools="[subagents, probe]")
    assert isinstance(events[-1], RunCompleted), events[-1]


OWN = '''
from zeus_runtime import LimitError
from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.middleware import Middleware
from zeus_runtime.plugin.tool import ToolResult, tool
from dataclasses import replace

class Stubborn(Middleware):
    """Ends a run at the second equal call, whatever the result."""

    def __init__(self, options, context):
        self.seen = {}

    async def wrap_tool_call(self, call, call_next):
        key = (call.name, str(call.arguments))
        self.seen[key] = self.seen.get(key, 0) + 1
        if self.seen[key] == 3:
            raise LimitError(f"{call.name} was called three times", remedy="Ask otherwise.")
        result = await call_next(call)
        return replace(result, content=result.content + " (again)") if self.seen[key] == 2 else result

@tool(access="read")
async def echo(text: str) -> str:
    """Say it back.

    Args:
        text: what to say.
    """
    return text

@hookimpl
def register_middlewares():
    return [Component("stubborn", create=Stubborn)]

@hookimpl
def register_tools():
    return [Component("probe", create=lambda options, context: [echo])]
'''


async def test_a_plugin_replaces_the_built_in_with_a_rule_of_its_own(tmp_path: Path) -> None:
    yaml = "limits: {repeated_calls: null}\nmiddlewares: [stubborn]\n"
    events = await circling(tmp_path, endless(A), yaml, plugin=OWN)
    ending = events[-1]
    assert isinstance(ending, RunFailed)
    assert (ending.exit_code, ending.message) == (6, "echo was called three times. Ask otherwise.")
    assert results(events) == ["a", "a (again)"]


def test_the_window_is_bounded() -> None:
    from zeus_runtime.run.repeated_calls import Repeats

    repeats = Repeats(5)
    made: Callable[[int], AIMessage] = lambda n: calling(call("echo", f"c{n}", text=str(n)))  # noqa: E731
    for n in range(1_000):
        repeats.add(made(n), [])
    assert len(repeats._answers) == 20


def test_another_result_of_the_same_call_is_no_repetition() -> None:
    answer = AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": "1", "type": "tool_call"}])
    repeats = Repeats(10)
    for _ in range(2):
        repeats.add(answer, [ToolMessage("the same", tool_call_id="1")])
    assert repeats.expected(answer, 0, "the same") == 3
    assert repeats.expected(answer, 0, "another") == 1


def test_an_answer_counts_when_each_of_its_calls_has_a_result() -> None:
    """A run that was killed within an answer has some of them; an answer without calls has none."""
    one, other = call("echo", "c1", text="1"), call("echo", "c2", text="2")
    results = [ToolMessage("a", tool_call_id="c1"), ToolMessage("b", tool_call_id="c2")]
    whole = [calling(one, other), *results]
    assert Repeats(8, [*whole, *whole]).count == 2
    assert Repeats(8, [calling(one, other), results[0]]).count == 0
    assert Repeats(8, [*whole, calling(one, other), results[0]]).count == 1
    assert Repeats(8, [*whole, AIMessage("I think."), *whole]).count == 2
    assert Repeats(8, [*whole, HumanMessage("go on"), *whole]).count == 1
    assert Repeats(8, [*whole, SystemMessage("a note"), *whole]).count == 2
    swapped = [calling(one, other), ToolMessage("b", tool_call_id="c1"), ToolMessage("a", tool_call_id="c2")]
    assert Repeats(8, [*whole, *swapped]).count == 1


def test_a_call_that_is_about_to_repeat_is_compared_by_its_own_place_and_within_a_cycle() -> None:
    one, other = call("echo", "c1", text="1"), call("echo", "c2", text="2")
    both, single = calling(one, other), calling(one)
    results = [ToolMessage("a", tool_call_id="c1"), ToolMessage("b", tool_call_id="c2")]
    repeats = Repeats(8, [both, *results, single, results[0], both, *results])
    assert repeats.expected(both, 0, "a") == 2
    assert repeats.expected(both, 1, "b") == 2
    assert repeats.expected(both, 1, "a") == 1
    assert repeats.expected(single, 0, "a") == 2
    assert repeats.expected(single, 0, "b") == 1
    assert Repeats(8).expected(both, 0, "a") == 1
