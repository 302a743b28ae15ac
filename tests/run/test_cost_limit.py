"""The money limit of a turn: projected before each call, kept over resumes, sub-agents and summaries included."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage

from tests.support.agents import PositionModel, call, calling, play, write_agent
from zeus_runtime import Agent
from zeus_runtime.context.ledger import StepRecord, StepUsage
from zeus_runtime.errors import LimitError
from zeus_runtime.events import Notice, RunCompleted, RunFailed, TokenUsage
from zeus_runtime.plugin.model import ModelProfile, ModelRequest, ModelResponse, Usage
from zeus_runtime.run.cost_limit import Projection, cached_before, projection, refuse_call, spent_before
from zeus_runtime.store.database import Database
from zeus_runtime.store.thread_log import StepEntry, ThreadLog

PRICES = (
    "profiles: {models: {gpt-4o: {max_input_tokens: 100000, input_cost_per_token: 0.000001,"
    " output_cost_per_token: 0.01, cache_read_cost_per_token: 0.0000001}}}\n"
)
"""Little for a token in, a cent for one out."""


class Costly(PositionModel):
    """A model whose every call costs what ``usage`` says."""

    def __init__(self, answers: list[AIMessage | str], usage: Usage | None) -> None:
        super().__init__(lambda request: answers[sum(message.type == "ai" for message in request.messages)])
        self._usage = usage

    async def stream(self, request: ModelRequest):  # type: ignore[no-untyped-def]
        async for piece in super().stream(request):
            yield ModelResponse(piece.message, self._usage) if isinstance(piece, ModelResponse) else piece


def steps(count: int) -> list[AIMessage | str]:
    return [*(calling(call("echo", f"c{n}", text=str(n))) for n in range(count)), "done"]


def agent(folder: Path, model: Costly, limits: str, more: str = "", **write: str) -> Agent:
    config = write_agent(folder, f"{PRICES}limits: {{{limits}}}\n{more}", **write)
    return Agent.from_config(config, directory=folder, model=model)


DOLLAR = Usage(1_000, 100)
"""What a call that costs a dollar reports."""


async def test_what_continue_adds_counts_in_the_turns_limit(tmp_path: Path) -> None:
    session, calls = None, 0
    for _ in range(8):
        model = Costly(steps(20), DOLLAR)
        async with agent(tmp_path, model, "max_cost_usd: 4.5, max_steps: 1") as living:
            ending = (await play(living, "go" if session is None else None, session))[-1]  # type: ignore[arg-type]
        assert isinstance(ending, RunFailed)
        session, calls = ending.session, calls + len(model.requests)
        if "max_cost_usd" in ending.message:
            break
    assert calls == 5
    assert (ending.exit_code, ending.code) == (6, "limit")
    assert "this turn cost $5.0050" in ending.message


async def test_a_new_prompt_has_a_limit_of_its_own(tmp_path: Path) -> None:
    async with agent(tmp_path, Costly(steps(0) * 9, DOLLAR), "max_cost_usd: 1.5") as living:
        session = None
        for _ in range(4):
            ending = (await play(living, "go", session))[-1]
            assert isinstance(ending, RunCompleted)
            session = ending.session


async def test_a_resumed_turn_does_not_pay_for_the_turns_before_it(tmp_path: Path) -> None:
    answers = ["first", *steps(1)]
    async with agent(tmp_path, Costly(answers, DOLLAR), "max_cost_usd: 1.5, max_steps: 1") as living:
        session = (await play(living, "one"))[-1].session  # type: ignore[union-attr]
        assert isinstance((await play(living, "two", session))[-1], RunFailed)
        ending = (await play(living, None, session))[-1]  # type: ignore[arg-type]
    assert isinstance(ending, RunCompleted), ending


async def test_a_call_that_would_exceed_the_limit_is_not_made(tmp_path: Path) -> None:
    model = Costly(steps(3), DOLLAR)
    async with agent(tmp_path, model, "max_cost_usd: 0.0005") as living:
        ending = (await play(living, "a long prompt " * 50))[-1]
    assert isinstance(ending, RunFailed)
    assert model.requests == []
    assert ending.exit_code == 6
    assert "may cost $" in ending.message
    assert "limits.max_cost_usd = 0.0005" in ending.message


async def test_the_output_reserve_counts_in_the_projection(tmp_path: Path) -> None:
    own = """
from zeus_runtime.plugin import Component, dataclass, hookimpl

@dataclass(frozen=True)
class Options:
    max_tokens: int = 100

@hookimpl
def register_models():
    return [Component("own", create=lambda options, context: None, options=Options)]
"""
    prices = PRICES.replace("gpt-4o", "own")
    for reserve, calls in ((10, 1), (1000, 0)):
        model = Costly(["done"], Usage(50, 1))
        folder = tmp_path / str(reserve)
        folder.mkdir()
        (folder / "own.py").write_text(own)
        (folder / "zeus.yaml").write_text(
            f"version: 1\nmodel: {{own: {{max_tokens: {reserve}}}}}\nplugins: {{files: [own.py]}}\n"
            f"{prices}limits: {{max_cost_usd: 5}}\n"
        )
        async with Agent.from_config(folder / "zeus.yaml", directory=folder, model=model) as living:
            await play(living, "go")
        assert len(model.requests) == calls


async def test_usage_that_is_not_reported_is_estimated_and_the_limit_holds(tmp_path: Path) -> None:
    model = Costly(steps(50), None)
    async with agent(tmp_path, model, "max_cost_usd: 2") as living:
        events = await play(living, "go")
    ending = events[-1]
    assert isinstance(ending, RunFailed)
    assert "max_cost_usd" in ending.message
    assert 1.5 < ending.details["cost_usd"] < 2.5
    assert [event.code for event in events if isinstance(event, Notice)] == ["usage_unknown"]
    assert all(event.estimated for event in events if isinstance(event, TokenUsage))


@pytest.mark.parametrize(
    "usage",
    [Usage(-1, 5), Usage(10**12, 1), Usage(float("nan"), 1), Usage("5", 1), Usage(True, 1)],
    ids=repr,  # type: ignore[arg-type]
)
async def test_a_plugins_nonsensical_usage_is_not_believed(tmp_path: Path, usage: Usage) -> None:
    async with agent(tmp_path, Costly(["done"], usage), "max_cost_usd: 2") as living:
        ending = (await play(living, "go"))[-1]
    assert isinstance(ending, RunCompleted)
    assert ending.cost_usd is not None
    assert 0 < ending.cost_usd < 1


@pytest.mark.parametrize("taken_up", [False, True])
async def test_sub_agents_count_over_resumes(tmp_path: Path, *, taken_up: bool) -> None:
    def answer(request: ModelRequest) -> AIMessage | str:
        said = sum(message.type == "ai" for message in request.messages)
        if not any(schema.name == "task" for schema in request.tools):
            return "part done"
        made = call("task", f"t{said}", agent="helper", prompt=f"part {said}", description="work")
        return calling(made) if said < 9 else "done"

    more = "agents: {helper: {description: helps, overrides: {tools: [probe]}}}\n"
    limits = "max_cost_usd: 5.5" + (", max_steps: 1" if taken_up else "")
    session, calls = None, 0
    for _ in range(9):
        model = Costly([], DOLLAR)
        model._answer = answer
        async with agent(tmp_path, model, limits, more, tools="[subagents, probe]") as living:
            ending = (await play(living, "go" if session is None else None, session))[-1]  # type: ignore[arg-type]
        assert isinstance(ending, RunFailed)
        session, calls = ending.session, calls + len(model.requests)
        if "max_cost_usd" in ending.message:
            break
    assert "max_cost_usd" in ending.message
    assert calls == 6


PROFILE = ModelProfile(
    "m", input_cost_per_token=0.001, output_cost_per_token=0.01, cache_read_cost_per_token=0.0001
)
TOKENS = st.integers(0, 10**6)


@given(TOKENS, TOKENS, TOKENS)
def test_cached_tokens_cost_less_and_never_more_than_there_are(tokens: int, output: int, cached: int) -> None:
    whole, part = (
        projection(PROFILE, tokens, output),
        projection(PROFILE, tokens, output, cached_tokens=cached),
    )
    assert whole.cost_usd is not None
    assert part.cost_usd is not None
    assert 0 <= part.cost_usd <= whole.cost_usd
    assert part.cost_usd == pytest.approx(whole.cost_usd - min(cached, tokens) * 0.0009)


@given(st.floats(0, 10), st.floats(0.001, 10), TOKENS, TOKENS)
def test_a_call_is_made_only_within_the_limit(spent: float, limit: float, tokens: int, output: int) -> None:
    call = projection(PROFILE, tokens, output)
    assert call.cost_usd is not None
    fits = spent < limit and spent + call.cost_usd <= limit
    if fits:
        refuse_call(spent, limit, call)
    else:
        with pytest.raises(LimitError, match="max_cost_usd"):
            refuse_call(spent, limit, call)


def test_a_model_without_a_price_projects_nothing() -> None:
    assert projection(ModelProfile("m"), 10, 10).cost_usd is None


def test_calls_in_flight_hold_what_they_may_cost_in_every_run_above() -> None:
    from zeus_runtime.context.tokens import counter_for
    from zeus_runtime.run.usage import UsageMeter

    counter = counter_for(PROFILE)
    parent = UsageMeter(PROFILE, counter, limit_usd=1.0)
    first, second = (UsageMeter(PROFILE, counter, above=parent) for _ in range(2))

    def called(meter: UsageMeter) -> AbstractContextManager[object]:
        return meter.call(projection(PROFILE, 600, 0), purpose="turn", model="m")

    refused = pytest.raises(LimitError, match="the run that this agent works for")
    with called(first), refused, called(second):
        raise AssertionError("the call was made")
    with called(second):
        pass


@pytest.mark.parametrize("spent", [1.0, 1.5])
def test_a_limit_that_is_reached_exactly_ends_the_turn_whatever_the_next_call_costs(spent: float) -> None:
    for free in (Projection(0, 0, None), Projection(0, 0, 0.0)):
        with pytest.raises(LimitError, match=r"this turn cost \$1\.\d+ and reached limits.max_cost_usd = 1"):
            refuse_call(spent, 1.0, free)
        refuse_call(0.999, 1.0, free)


@pytest.mark.parametrize(
    ("model", "read", "written", "tokens"),
    [("m", 1, 0, 50), ("m", 0, 1, 50), ("m", 0, 0, 0), ("other", 1, 1, 0)],
)
def test_the_last_request_is_in_the_cache_of_its_own_model_if_that_reports_one(
    model: str, read: int, written: int, tokens: int
) -> None:
    assert cached_before(step_of(model="m", usage=StepUsage(50, 1, read, written)), model) == tokens
    assert cached_before(step_of(model="m"), model) == 0
    assert cached_before(None, model) == 0


async def test_what_policies_and_sub_agents_spent_counts_when_a_turn_is_resumed(tmp_path: Path) -> None:
    database = Database("sqlite:///z.db", directory=tmp_path)
    try:
        log = ThreadLog(database)
        await log.create_tables()
        thread = await log.open("session_one", agent="a")
        for number, (run_id, cost, policy) in enumerate(
            [("this", 1.0, 0.25), ("this", None, 0.5), ("this", 2.0, None), ("before", 100.0, 100.0)], 1
        ):
            step = step_of(number=number, run_id=run_id, cost_usd=cost, policy_cost_usd=policy)
            await log.append_step(thread, StepEntry(number, 0, step.to_json()))
        assert await spent_before(log, thread, "this") == 3.75
        assert await spent_before(log, thread, "before") == 200.0
        assert await spent_before(log, thread, "none") == 0.0
        assert await spent_before(log, thread, None) == 200.0, "of the last turn"
        await log.append_step(thread, StepEntry(5, 0, '{"number": '))
        assert await spent_before(log, thread, None) == 400.0, "a damaged entry counts as the dearest"
        assert await spent_before(log, thread, "this") == 3.75, "of its own turn"
    finally:
        await database.close()


@pytest.mark.parametrize(
    ("runs", "counted"),
    [
        (["a", None, "b"], {"a": 8.0, "b": 12.0, None: 12.0}),
        ([None, "a", "b", None], {"a": 10.0, "b": 12.0, None: 12.0}),
        (["a", None, None, "b", "b"], {"a": 12.0, "b": 31.0}),
        ([None], {"a": 0.0, None: 0.0}),
        ([], {None: 0.0}),
    ],
)
async def test_a_damaged_entry_counts_in_the_turns_beside_it(
    tmp_path: Path, runs: list[str | None], counted: dict[str | None, float]
) -> None:
    database = Database("sqlite:///z.db", directory=tmp_path)
    try:
        log = ThreadLog(database)
        await log.create_tables()
        thread = await log.open("session_one", agent="a")
        for number, run in enumerate(runs, 1):
            step = step_of(number=number, run_id=run, cost_usd=3.0 + number)
            await log.append_step(thread, StepEntry(number, 0, "[]" if run is None else step.to_json()))
        assert {run: await spent_before(log, thread, run) for run in counted} == counted
    finally:
        await database.close()


def step_of(**given: Any) -> StepRecord:
    numbers = ("number", "cursor", "edits", "input_limit_tokens", "fixed_tokens", "view_tokens", "messages")
    return StepRecord(
        **{**dict.fromkeys(numbers, 1), "run_id": "r", "model": "m", "fixed": "f", "by_source": {}, **given}
    )


def test_a_call_may_cost_all_that_is_left_and_no_more() -> None:
    refuse_call(0.5, 1.0, Projection(1, 0, 0.5))
    with pytest.raises(LimitError, match="the next model call may cost"):
        refuse_call(0.5, 1.0, Projection(1, 0, 0.50001))
