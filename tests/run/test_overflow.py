"""A request the provider finds too large: planned again, harder, at most twice, and never a lost message."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from langchain_core.messages import AIMessage

from tests.support.agents import PositionModel, assert_paired, call, calling, play
from tests.support.planning import edits_of, steps_of, write_planned
from zeus_runtime import Agent
from zeus_runtime.context.tokens import Counter, counter_for, request_tokens
from zeus_runtime.events import RunCompleted, RunFailed
from zeus_runtime.models.profiles import lookup
from zeus_runtime.plugin.model import ModelError, ModelRequest

LONG = "word " * 300


def windowed(
    window: int, steps: int, *, stated: bool = True, scale: float = 1.0, text: str = LONG
) -> PositionModel:
    """A model that counts for itself, ``scale`` times what we count, and refuses more than ``window``."""
    counter: Counter = counter_for(lookup("gpt-4o"))
    made = [0]

    def answer(request: ModelRequest) -> AIMessage | ModelError | str:
        tokens = round(scale * request_tokens(counter, request))
        if tokens > window:
            numbers = {"input_tokens": tokens, "limit_tokens": window} if stated else {}
            return ModelError("the prompt is too long", kind="context_overflow", status=400, **numbers)
        made[0] += 1
        return "done" if made[0] > steps else calling(call("echo", f"c{made[0]}", text=text))

    return PositionModel(answer)


def overflows(model: PositionModel, agent: Agent, check: Callable[[int], bool]) -> int:
    counter = counter_for(agent.plan.profile)
    return sum(check(request_tokens(counter, request)) for request in model.requests)


SHED = "middlewares: [shed: {trigger: {fraction: 0.9}, keep: 4}]\n"


async def test_an_overflow_forces_the_policies_and_the_run_goes_on(tmp_path: Path) -> None:
    config = write_planned(tmp_path, SHED)
    model = windowed(8_000, 20)
    async with Agent.from_config(config, directory=tmp_path, model=model) as agent:
        events = await play(agent, "go")
        ending = events[-1]
        assert isinstance(ending, RunCompleted), ending
        history = await agent.history(ending.session)
        refused = overflows(model, agent, lambda tokens: tokens > 8_000)
    assert len(history) == 2 + 2 * 20
    assert refused == 1
    steps = await steps_of(tmp_path, ending.session)
    overflow = [(step, each) for step in steps for each in step.decisions if each.kind == "overflow"]
    assert len(overflow) == 1
    step, decision = overflow[0]
    assert decision.reason == "the prompt is too long"
    assert decision.tokens_after > 8_000
    assert [each.policy for each in step.decisions] == ["runtime", "shed"]
    assert step.usage is None
    assert {each.input_limit_tokens for each in steps[: step.number - 1]} == {128_000}
    assert {each.input_limit_tokens for each in steps[step.number - 1 :]} == {8_000}
    for request in model.requests:
        assert_paired(list(request.messages))


async def test_the_stated_size_corrects_a_counter_that_is_far_off(tmp_path: Path) -> None:
    config = write_planned(tmp_path, SHED, window=8_000)
    model = windowed(8_000, 20, scale=2.0)
    async with Agent.from_config(config, directory=tmp_path, model=model) as agent:
        ending = (await play(agent, "go"))[-1]
        refused = overflows(model, agent, lambda tokens: 2 * tokens > 8_000)
    assert isinstance(ending, RunCompleted), ending
    assert refused == 1


async def test_an_error_without_numbers_is_recovered_from_too(tmp_path: Path) -> None:
    config = write_planned(tmp_path, SHED)
    model = windowed(8_000, 12, stated=False)
    async with Agent.from_config(config, directory=tmp_path, model=model) as agent:
        ending = (await play(agent, "go"))[-1]
    assert isinstance(ending, RunCompleted), ending


async def test_at_most_two_retries_then_a_clear_error_and_no_lost_message(tmp_path: Path) -> None:
    config = write_planned(
        tmp_path,
        "middlewares:\n"
        "  - propose: {at: 1, edits: [{kind: pin, seq: 1}]}\n"
        "  - shed: {trigger: {messages: 900}, keep: 2}\n",
    )
    calls = [0]

    def answer(request: ModelRequest) -> AIMessage | ModelError | str:
        if len(request.messages) < 8 and not calls[0]:
            return calling(call("echo", f"c{len(request.messages)}", text=LONG))
        calls[0] += 1
        return ModelError(
            "the prompt is too long", kind="context_overflow", input_tokens=90_000, limit_tokens=9_000
        )

    model = PositionModel(answer)
    async with Agent.from_config(config, directory=tmp_path, model=model) as agent:
        ending = (await play(agent, "the goal"))[-1]
        assert isinstance(ending, RunFailed)
        history = await agent.history(ending.session)
    assert calls[0] == 2
    assert ending.code == "model_context_overflow"
    assert "What is left takes about" in ending.message
    assert "prompt and tools" in ending.message
    assert "tool schemas" in ending.message
    assert "pinned)" in ending.message
    assert [message.type for message in history][:3] == ["human", "ai", "tool"]
    assert history[0].content == "the goal"
    last = (await steps_of(tmp_path, ending.session))[-1]
    assert last.error == "model_context_overflow"
    assert [each.kind for each in last.decisions].count("overflow") == 2


async def test_without_a_policy_the_error_says_at_once_what_takes_how_much(tmp_path: Path) -> None:
    model = windowed(8_000, 30)
    async with Agent.from_config(write_planned(tmp_path), directory=tmp_path, model=model) as agent:
        ending = (await play(agent, "go"))[-1]
        assert isinstance(ending, RunFailed)
        refused = overflows(model, agent, lambda tokens: tokens > 8_000)
    assert ending.exit_code == 1
    assert refused == 1
    assert "of 8,000" in ending.message
    assert "add a context policy" in ending.message


async def test_a_known_window_is_kept_without_the_provider_having_to_refuse(tmp_path: Path) -> None:
    yaml = "middlewares: [shed: {trigger: {messages: 900}, keep: 4}]\n"
    model = windowed(8_000, 30)
    config = write_planned(tmp_path, yaml, window=8_000)
    async with Agent.from_config(config, directory=tmp_path, model=model) as agent:
        ending = (await play(agent, "go"))[-1]
        refused = overflows(model, agent, lambda tokens: tokens > 8_000)
    assert isinstance(ending, RunCompleted)
    assert refused == 0


async def test_a_failed_run_can_be_taken_up_under_a_larger_window(tmp_path: Path) -> None:
    model = windowed(8_000, 30)
    async with Agent.from_config(write_planned(tmp_path), directory=tmp_path, model=model) as agent:
        ending = (await play(agent, "go"))[-1]
    assert isinstance(ending, RunFailed)
    large = windowed(100_000, 0)
    async with Agent.from_config(write_planned(tmp_path), directory=tmp_path, model=large) as agent:
        events = [event async for event in agent.resume(ending.session)]
    assert isinstance(events[-1], RunCompleted)
    assert len(large.requests[0].messages) == len(model.requests[-1].messages)
    assert await edits_of(tmp_path, ending.session) == []
    numbers = [step.number for step in await steps_of(tmp_path, ending.session)]
    assert numbers == list(range(1, len(numbers) + 1))


async def test_what_the_provider_said_of_its_window_is_known_in_the_next_turn(tmp_path: Path) -> None:
    config = write_planned(tmp_path, SHED)
    model = windowed(8_000, 20)
    async with Agent.from_config(config, directory=tmp_path, model=model) as agent:
        session = (await agent.run("go")).session
    again = windowed(8_000, 20)
    async with Agent.from_config(config, directory=tmp_path, model=again) as agent:
        await agent.run("more", session=session)
        refused = overflows(again, agent, lambda tokens: tokens > 8_000)
    assert len(again.requests) == 21
    assert refused == 0
