"""Each event says which run emitted it and when; each model call has a start and an end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage

from tests.support.agents import Answer, PositionModel, call, calling, events_of, play, script, write_agent
from zeus_runtime import Agent
from zeus_runtime.config.secrets.masking import Redactor
from zeus_runtime.events import (
    Event,
    ModelCallEnded,
    ModelCallStarted,
    Notice,
    RunCompleted,
    RunFailed,
    RunStarted,
    SubAgentEvent,
    Text,
    TokenUsage,
)
from zeus_runtime.plugin.model import ModelError, ModelRequest
from zeus_runtime.run.emitter import Emitter

HELPER = "agents: {helper: {description: Helps., instructions: Work.}}\n"
OBSERVER = """
from zeus_runtime.plugin import hookimpl

@hookimpl
def on_event(event):
    raise RuntimeError("no")
"""


def origins(events: list[Event]) -> list[tuple[str, str, str | None]]:
    found = [event.origin for event in events]
    assert None not in found
    return [(each.session, each.run, each.parent) for each in found if each is not None]


def agent(folder: Path, model: PositionModel, yaml: str = "", **options: Any) -> Agent:
    return Agent.from_config(write_agent(folder, yaml, **options), directory=folder, model=model)


async def test_every_event_names_its_session_its_run_and_its_time(tmp_path: Path) -> None:
    async with agent(tmp_path, script(calling(call("echo", "a", text="x")), "done", "again")) as living:
        first = await play(living, "go")
        session = first[-1].to_wire()["session"]
        second = await play(living, "and", session)
    for events in (first, second):
        (origin,) = set(origins(events))
        assert origin[0] == session
        assert len(origin[1]) == 8
        assert origin[2] is None
        times = [event.to_wire()["time_ms"] for event in events]
        assert times == sorted(times)
        assert times[0] > 1_700_000_000_000
    assert origins(first)[0] != origins(second)[0]


async def test_the_run_of_an_event_is_that_of_the_log(tmp_path: Path) -> None:
    async with agent(tmp_path, script("done")) as living:
        events = await play(living, "go")
        origin = events[0].origin
        assert origin is not None
        log = (await living._open()).log
        (step,) = await log.steps(await log.find(origin.session))
    assert f'"{origin.run}"' in step.payload


async def test_a_resumed_run_keeps_its_id(tmp_path: Path) -> None:
    answers: list[Answer] = [ModelError("no", kind="bad_request"), "done"]
    async with agent(tmp_path, PositionModel(lambda _request: answers.pop(0))) as living:
        failed = await play(living, "go")
        resumed = await events_of(living.resume(failed[-1].to_wire()["session"]))
    assert isinstance(resumed[-1], RunCompleted)
    assert set(origins(failed)) == set(origins(resumed))


async def test_a_resume_with_nothing_to_do_names_the_run_that_ended(tmp_path: Path) -> None:
    async with agent(tmp_path, script("done")) as living:
        session = (await play(living, "go"))[-1].to_wire()["session"]
        ended = await events_of(living.resume(session))
    (origin,) = {each[1] for each in origins(ended)}
    assert isinstance(ended[-1], RunFailed)
    assert origin == (await _last_run(tmp_path, session))


async def _last_run(folder: Path, session: str) -> str:
    async with agent(folder, script("done")) as living:
        log = (await living._open()).log
        steps = await log.steps(await log.find(session))
    return str(steps[-1].payload).split('"run_id":"')[1].split('"')[0]


async def test_notices_from_before_the_run_carry_its_id_and_come_first(tmp_path: Path) -> None:
    async with agent(tmp_path, script("done"), "middlewares: [resources]\n") as living:
        events = await play(living, "go with @missing.txt")
    kinds = [event.type for event in events]
    assert kinds.index("notice") < kinds.index("run_started")
    assert len(set(origins(events))) == 1


async def test_an_observers_failure_has_an_origin_too(tmp_path: Path) -> None:
    async with agent(tmp_path, script("done"), plugin=OBSERVER, tools="[]") as living:
        events = await play(living, "go")
    assert "observer-failed" in [each.code for each in events if isinstance(each, Notice)]
    assert len(set(origins(events))) == 1


async def test_a_sub_agents_events_name_its_run_and_the_run_that_gave_the_task(tmp_path: Path) -> None:
    def answer(request: ModelRequest) -> Answer:
        if any(str(each.content) == "work" for each in request.messages):
            return "worked"
        return (
            calling(call("task", "t", agent="helper", description="d", prompt="work"))
            if len(request.messages) == 1
            else "done"
        )

    async with agent(tmp_path, PositionModel(answer), HELPER, tools="[subagents]") as living:
        events = await play(living, "go")
    assert isinstance(events[-1], RunCompleted), events[-1]
    own = [each for each in events if isinstance(each, SubAgentEvent)]
    others = [each for each in events if not isinstance(each, SubAgentEvent)]
    ((session, run, parent),) = set(origins([*own]))
    ((above, run_above, none),) = set(origins(others))
    assert (parent, none) == (run_above, None)
    assert {session, run}.isdisjoint({above, run_above})
    for each in own:
        wire = each.to_wire()
        assert (wire["session"], wire["run"], wire["parent"]) == (session, run, parent)
        assert (each.event["session"], each.event["run"]) == (session, run)
    # The usage of its call comes unwrapped too, under the call's id.
    calls = {each.event["call"] for each in own if each.event["type"] == "model_call"}
    assert calls < {each.call for each in events if isinstance(each, TokenUsage)}


async def test_a_model_call_starts_before_its_text_and_ends_after_its_usage(tmp_path: Path) -> None:
    async with agent(tmp_path, script("done")) as living:
        events = await play(living, "go")
    events = [event for event in events if not isinstance(event, Notice)]
    kinds = [event.type for event in events]
    assert kinds == ["run_started", "model_call", "text", "token_usage", "model_call_ended", "complete"]
    started, usage, ended = events[1], events[3], events[4]
    assert isinstance(started, ModelCallStarted)
    assert isinstance(usage, TokenUsage)
    assert isinstance(ended, ModelCallEnded)
    assert started.call == usage.call == ended.call
    assert (started.purpose, ended.purpose, started.model) == ("turn", "turn", "scripted")
    assert (ended.finish_reason, ended.error) == ("stop", "")
    assert ended.seconds >= 0


async def test_the_call_of_a_context_policy_says_its_purpose(tmp_path: Path) -> None:
    def answer(request: ModelRequest) -> Answer:
        return "short" if request.purpose != "turn" else AIMessage("long " * 400)

    yaml = "middlewares: [summarization: {trigger: {messages: 4}, keep: {messages: 2}}]\n"
    async with agent(tmp_path, PositionModel(answer), yaml) as living:
        session = (await play(living, "go"))[-1].to_wire()["session"]
        events = [event for _ in range(3) for event in await play(living, "more", session)]
    started = [each for each in events if isinstance(each, ModelCallStarted)]
    assert {each.purpose for each in started} == {"summary", "turn"}
    assert len({each.call for each in started}) == len(started)
    assert [each.call for each in started] == [
        each.call for each in events if isinstance(each, ModelCallEnded)
    ]


@pytest.mark.parametrize(
    ("failure", "error"),
    [(ModelError("no", kind="bad_request"), "model_bad_request"), (RuntimeError("broken"), "internal")],
)
async def test_a_failed_call_ends_with_its_error(tmp_path: Path, failure: Exception, error: str) -> None:
    async with agent(tmp_path, script(failure)) as living:
        events = await play(living, "go")
    (ended,) = [each for each in events if isinstance(each, ModelCallEnded)]
    assert (ended.error, ended.finish_reason) == (error, "")
    assert not any(isinstance(each, TokenUsage) for each in events)


async def test_a_cancelled_call_ends(tmp_path: Path) -> None:
    class Hanging(PositionModel):
        async def stream(self, request: ModelRequest) -> Any:
            await asyncio.Event().wait()
            yield

    events: list[Event] = []
    async with agent(tmp_path, Hanging(lambda _request: "")) as living:
        async for event in living.stream("go"):
            events.append(event)
            if isinstance(event, ModelCallStarted):
                living.cancel(event.to_wire()["session"])
    assert [each.error for each in events if isinstance(each, ModelCallEnded)] == ["cancelled"]
    assert events[-1].type == "error"


async def test_a_call_that_the_cost_limit_refuses_does_not_start(tmp_path: Path) -> None:
    yaml = "limits: {max_cost_usd: 0.0000001, repeated_calls: null}\n"
    async with agent(tmp_path, script("done"), yaml) as living:
        events = await play(living, "go")
    assert isinstance(events[-1], RunFailed)
    assert events[-1].code == "limit"
    assert not any(isinstance(each, ModelCallStarted | ModelCallEnded) for each in events)


Step = Callable[[Emitter], None]


@given(st.lists(st.sampled_from(["text", "begin", "end"]), max_size=8))
def test_no_event_is_lost_or_reordered_and_each_has_the_id_if_there_is_one(steps: list[str]) -> None:
    sent: list[Event] = []
    emit = Emitter(sent.append, Redactor(), "session_1", parent="above")
    given: list[Event] = []
    is_through = False
    for number, step in enumerate(steps):
        if step == "begin":
            emit.begin("run_1")
        else:
            given.append(
                Text(str(number)) if step == "text" else RunFailed("session_1", "error", str(number))
            )
            emit(given[-1])
        is_through = emit.run != "" or step == "end"
        assert sent == given[: len(sent)]
        assert sent == given or not is_through
    emit.begin("run_1")
    assert sent == given
    assert {each.origin and each.origin[:3] for each in sent} <= {
        ("session_1", run, "above") for run in ("", "run_1")
    }


def test_an_event_that_no_run_emitted_has_no_origin() -> None:
    event = RunStarted("session_1", "m", "agent")
    assert event.origin is None
    assert event.to_wire() == {
        "type": "run_started",
        "session": "session_1",
        "model": "m",
        "mode": "agent",
        "resumed": False,
    }
