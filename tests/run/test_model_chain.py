"""A chain of models: the next one answers if one fails, is billed by its own prices, and keeps the turn."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.agents import play, write_agent
from tests.support.hand_time import moved_by_hand
from tests.support.planning import RULES, steps_of
from tests.support.provider import Call, Provider, Received, Reply
from zeus_runtime import Agent
from zeus_runtime.config.model import Breaker
from zeus_runtime.events import Event, ModelChanged, RunCompleted, RunFailed, RunStarted, Text, TokenUsage
from zeus_runtime.models.chain import Circuit
from zeus_runtime.plugin.model import ModelError, ModelRequest
from zeus_runtime.testing import ScriptedModel

GPT, CLAUDE = "openai/gpt-4o", "anthropic/claude-sonnet-4-5"
PRICES = {
    GPT: {"input_cost_per_token": 1, "output_cost_per_token": 10},
    CLAUDE: {"input_cost_per_token": 100, "output_cost_per_token": 1000},
}


def write_chain(folder: Path, provider: Provider, models: Sequence[str] = (GPT, CLAUDE), **more: Any) -> Path:
    """A config with the models in a chain; ``more`` are settings of the chain, or keys of the config."""
    bases = {"openai": provider.openai, "anthropic": provider.anthropic}
    entries = [
        {"litellm": {"model": each, "api_base": bases[each.partition("/")[0]], "api_key": "sk-x"}}
        for each in models
    ]
    own = {
        key: more.pop(key) for key in [*more] if key in ("move_on", "tries", "first_token_seconds", "breaker")
    }
    config = {
        "version": 1,
        "name": "chained",
        "model": {"chain": entries, "tries": 1, **own},
        "retry": {"attempts": 1},
        "tools": ["probe"],
        "plugins": {"files": ["probe.py"]},
        "profiles": {"models": PRICES},
        **more,
    }
    write_agent(folder)
    path = folder / "zeus.yaml"
    path.write_text(json.dumps(config))
    return path


def wires(provider: Provider) -> list[str]:
    """Who was asked, in order."""
    return ["claude" if each.path.endswith("/messages") else "gpt" for each in provider.requests]


async def played(path: Path, *prompts: str) -> list[list[Event]]:
    """The events of one session's runs."""
    found: list[list[Event]] = []
    async with Agent.from_config(path, directory=path.parent) as agent:
        session = None
        for prompt in prompts or ("go",):
            found.append(await play(agent, prompt, session=session))
            session = found[0][-1].session  # type: ignore[union-attr]
    return found


def only(events: Sequence[Event], kind: type[Any]) -> list[Any]:
    return [each for each in events if isinstance(each, kind)]


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (Reply("slow down", status=429), "model_rate_limit"),
        (Reply("pay", status=402), "model_billing"),
        (
            Reply(body='{"error": {"message": "no", "type": "x", "code": "insufficient_quota"}}', status=429),
            "model_billing",
        ),
        (Reply("Your credit balance is too low to access the Anthropic API.", status=400), "model_billing"),
        (Reply("oops", status=500), "model_server"),
        (Reply("Half of an answer", cut_after=4), "model_network"),
        (Reply(reset_after=0), "model_network"),
    ],
)
@pytest.mark.parametrize("models", [(GPT, CLAUDE), (CLAUDE, GPT)])
async def test_the_next_model_answers_and_is_billed_by_its_own_prices(
    tmp_path: Path, failure: Reply, code: str, models: tuple[str, str]
) -> None:
    with Provider(failure, Reply("Hello")) as provider:
        (events,) = await played(write_chain(tmp_path, provider, models))
        assert wires(provider) == (["gpt", "claude"] if models[0] == GPT else ["claude", "gpt"])
    ending = events[-1]
    assert isinstance(ending, RunCompleted), ending
    assert ending.answer == "Hello"
    prices = PRICES[models[1]]
    cost = 11 * prices["input_cost_per_token"] + 7 * prices["output_cost_per_token"]
    assert [each.cost_usd for each in only(events, TokenUsage)] == [cost]
    (moved,) = only(events, ModelChanged)
    assert (moved.model, moved.former) == (models[1], models[0])
    # The pieces before the move are void: what streamed after it is the answer.
    assert "".join(each.text for each in events[events.index(moved) :] if isinstance(each, Text)) == "Hello"
    failed, answered = await steps_of(tmp_path, ending.session)
    assert (failed.model, failed.error, failed.cost_usd, failed.why) == (models[0], code, None, "")
    assert (answered.model, answered.error, answered.cost_usd) == (models[1], "", cost)
    assert answered.why.startswith(f"{models[0]}: {moved.reason[:20]}")
    assert answered.input_limit_tokens == (200_000 if models[1] == CLAUDE else 128_000)


@pytest.mark.parametrize(
    ("failure", "settings", "code"),
    [
        (Reply("no such key", status=401), {}, "model_auth"),
        (Reply("no such model", status=404), {}, "model_bad_request"),
        (Reply("oops", status=500), {"move_on": ["rate_limit"]}, "model_server"),
        (Reply("pay", status=402), {"move_on": ["rate_limit"]}, "model_billing"),
    ],
)
async def test_other_errors_end_the_run(
    tmp_path: Path, failure: Reply, settings: Mapping[str, Any], code: str
) -> None:
    with Provider(failure, Reply("Hello")) as provider:
        (events,) = await played(write_chain(tmp_path, provider, **settings))
        assert wires(provider) == ["gpt"]
    assert isinstance(events[-1], RunFailed)
    assert events[-1].code == code


async def test_if_no_model_answers_the_error_names_them_all_and_the_last_one_has_all_tries(
    tmp_path: Path,
) -> None:
    with Provider(*[Reply("down", status=503)] * 5) as provider:
        retry = {"attempts": 3, "initial_seconds": 0}
        (events,) = await played(write_chain(tmp_path, provider, retry=retry, tries=2))
        assert wires(provider) == ["gpt", "gpt", "claude", "claude", "claude"]
    assert isinstance(events[-1], RunFailed)
    assert (events[-1].code, f"before: {GPT}: " in events[-1].message) == ("model_server", True)
    assert [each.error for each in await steps_of(tmp_path, events[-1].session)] == ["model_server"] * 2


async def test_a_turn_stays_with_the_model_that_answered_and_the_next_one_begins_with_the_first(
    tmp_path: Path,
) -> None:
    echo = Call("echo", json.dumps({"text": "x"}))
    replies = [
        Reply("oops", status=500),
        Reply(reasoning="let me think", calls=[echo]),
        Reply("done"),
        Reply("again"),
    ]
    with Provider(*replies) as provider:
        first, second = await played(write_chain(tmp_path, provider), "go", "and now")
        assert wires(provider) == ["gpt", "claude", "claude", "gpt"]
        back, forth = provider.requests[2].body["messages"], provider.requests[3].body["messages"]
    assert back[1]["content"][0]["type"] == "thinking"
    # Signed thinking is for its own provider: another one refuses what it does not know.
    assert not any("thinking" in key or "reasoning" in key for message in forth for key in message)
    assert [each.model for each in only(first, ModelChanged)] == [CLAUDE]
    assert not only(second, ModelChanged)
    whys = [each.why for each in await steps_of(tmp_path, first[-1].session)]  # type: ignore[union-attr]
    assert whys[0] == whys[3] == ""
    assert whys[2] == "it answered before in this turn"


async def test_thinking_is_not_asked_for_after_the_calls_of_a_model_that_did_not_think(
    tmp_path: Path,
) -> None:
    echo = Call("echo", json.dumps({"text": "x"}))
    replies = [
        Reply(calls=[echo]),
        Reply("oops", status=500),
        Reply("done"),
        Reply("oops", status=500),
        Reply("ok"),
    ]
    with Provider(*replies) as provider:
        path = write_chain(tmp_path, provider)
        config = json.loads(path.read_text())
        thinking = {"type": "enabled", "budget_tokens": 2000}
        config["model"]["chain"][1]["litellm"]["extra"] = {"thinking": thinking}
        path.write_text(json.dumps(config))
        await played(path, "go", "and now")
        assert wires(provider) == ["gpt", "gpt", "claude", "gpt", "claude"]
        assert "thinking" not in provider.requests[2].body
        assert provider.requests[4].body["thinking"] == thinking


async def test_a_model_whose_circuit_is_open_is_passed_over(tmp_path: Path) -> None:
    with Provider(Reply("oops", status=500), Reply("one"), Reply("two")) as provider:
        path = write_chain(tmp_path, provider, breaker={"failures": 1})
        _, second = await played(path, "go", "and now")
        assert wires(provider) == ["gpt", "claude", "claude"]
    assert [each.model for each in only(second, RunStarted)] == [CLAUDE]
    (moved,) = only(second, ModelChanged)
    assert moved.reason == "passed over after 1 failed calls in a row"


def test_an_open_circuit_lets_one_call_through_after_its_time() -> None:
    now = [0.0]
    circuit = Circuit(Breaker(failures=2, seconds=10), clock=lambda: now[0])
    circuit.failed()
    circuit.answered()
    circuit.failed()
    assert circuit.admits()
    circuit.failed()
    assert (circuit.is_open, circuit.admits()) == (True, False)
    now[0] = 10
    assert [circuit.admits(), circuit.admits()] == [True, False]
    circuit.failed()
    now[0] = 19
    assert not circuit.admits()
    now[0] = 20
    assert circuit.admits()
    circuit.answered()
    assert [circuit.admits(), circuit.admits()] == [True, True]


async def test_a_model_that_takes_too_long_for_its_first_piece_is_left(tmp_path: Path) -> None:
    with Provider(Reply("late", hang_after=0), Reply("Hello")) as provider:
        path = write_chain(tmp_path, provider, first_token_seconds=5)
        with moved_by_hand() as time:
            playing = asyncio.create_task(played(path))
            assert await asyncio.to_thread(provider.wait_for_requests, 1)
            passing = asyncio.create_task(time.goes_on())
            (events,) = await playing
            passing.cancel()
        assert provider.wait_for_hangup()
    (moved,) = only(events, ModelChanged)
    assert "model.first_token_seconds" in moved.reason
    assert events[-1].answer == "Hello"  # type: ignore[union-attr]


TOO_LONG = Reply(
    "This model's maximum context length is 9000 tokens, your messages have 9500 tokens", status=400
)
SIZES = {
    "small": {**PRICES[GPT], "max_input_tokens": 9_000},
    "large": {**PRICES[CLAUDE], "max_input_tokens": 50_000},
}


@pytest.mark.parametrize(
    ("first", "second", "asked", "ending"),
    [("small", "large", ["gpt", "claude"], "complete"), ("large", "small", ["gpt"], "error")],
)
async def test_an_overflow_moves_to_a_larger_window_only(
    tmp_path: Path, first: str, second: str, asked: Sequence[str], ending: str
) -> None:
    with Provider(TOO_LONG, Reply("fits")) as provider:
        profiles = {"models": {GPT: SIZES[first], CLAUDE: SIZES[second]}}
        path = write_chain(tmp_path, provider, profiles=profiles)
        (events,) = await played(path)
        # The provider states a window of 9,000 tokens for the first model in both cases.
        assert wires(provider) == asked
    assert events[-1].type == ending


async def test_a_smaller_window_of_the_next_model_leads_to_a_compaction(tmp_path: Path) -> None:
    shedding = {
        "plugins": {"files": ["probe.py", "rules.py"]},
        "middlewares": [{"shed": {"trigger": {"fraction": 0.8}, "keep": 2}}],
        "profiles": {"models": {GPT: SIZES["large"], CLAUDE: SIZES["small"]}},
    }
    (tmp_path / "rules.py").write_text(RULES)
    long = Call("echo", json.dumps({"text": "word " * 9_000}))
    with Provider(Reply(calls=[long]), Reply("oops", status=500), Reply("short")) as provider:
        path = write_chain(tmp_path, provider, **shedding)
        (events,) = await played(path)
        assert wires(provider) == ["gpt", "gpt", "claude"]
        assert len(provider.requests[1].body["messages"]) > len(provider.requests[2].body["messages"])
    steps = await steps_of(tmp_path, events[-1].session)  # type: ignore[union-attr]
    assert [any(each.admitted for each in step.decisions) for step in steps] == [False, False, True]
    assert steps[2].input_limit_tokens == 9_000


async def test_policies_ask_and_count_with_the_model_that_is_asked_now(tmp_path: Path) -> None:
    summarizing = {
        "plugins": {"files": ["probe.py", "rules.py"]},
        "middlewares": [{"resume": {"trigger": {"messages": 3}, "keep": 2}}],
    }
    (tmp_path / "rules.py").write_text(RULES)
    echo = Call("echo", json.dumps({"text": "antidisestablishmentarianism " * 40}))
    replies = [Reply(calls=[echo]), Reply("oops", status=500), Reply("a summary"), Reply("done")]
    with Provider(*replies) as provider:
        path = write_chain(tmp_path, provider, **summarizing)
        (events,) = await played(path)
        assert wires(provider) == ["gpt", "gpt", "claude", "claude"]
    assert events[-1].answer == "done"  # type: ignore[union-attr]
    first, last = await steps_of(tmp_path, events[-1].session)  # type: ignore[union-attr]
    assert (first.model, last.model) == (GPT, CLAUDE)
    assert last.policy_cost_usd == 11 * 100 + 7 * 1000
    async with Agent.from_config(path, directory=tmp_path) as agent:
        *_, call, result, _ = await agent.history(events[-1].session)  # type: ignore[union-attr]
        ours, others = (
            [model.token_counter.message(each) for each in (call, result)]
            for model in reversed(agent.plan.models)
        )
    assert ours != others
    assert last.by_source["assistant"] + last.by_source["tool:echo"] == sum(ours), last.by_source


async def test_sub_agents_have_the_chain_and_its_circuits(tmp_path: Path) -> None:
    def answer(received: Received) -> Reply:
        if not received.path.endswith("/messages"):
            return Reply("oops", status=500)
        text = json.dumps(received.body["messages"])
        if (
            "look it up" in text
            and "tool_result" not in text
            and "task" not in json.dumps(received.body["tools"])
        ):
            return Reply("found")
        if "tool_result" in text:
            return Reply("done")
        task = {"agent": "scout", "prompt": "look it up", "description": "look"}
        return Reply(calls=[Call("task", json.dumps(task))])

    agents = {"agents": {"scout": {"description": "looks things up"}}, "tools": ["probe", "subagents"]}
    with Provider(answer=answer) as provider:
        path = write_chain(tmp_path, provider, breaker={"failures": 1}, **agents)
        (events,) = await played(path)
        # The parent's failure has opened the circuit for the sub-agent too.
        assert wires(provider) == ["gpt", "claude", "claude", "claude"]
    ending = events[-1]
    assert isinstance(ending, RunCompleted), ending
    assert ending.cost_usd == 3 * (11 * 100 + 7 * 1000)


MODELS: dict[str, Any] = {}
"""The models of the plugin below, by name."""

SCRIPTED = """
from dataclasses import dataclass
from tests.run.test_model_chain import MODELS
from zeus_runtime.plugin import Component, hookimpl

@dataclass(frozen=True)
class Named:
    model: str

@hookimpl
def register_models():
    return [Component("scripted", create=lambda options, context: MODELS[options.model], options=Named)]
"""
KINDS = ("rate_limit", "server", "network", "timeout")


class Told:
    """A model that answers with its name, or fails, as it is told for each turn."""

    def __init__(self, name: str, turns: Sequence[str]) -> None:
        self.name = name
        self.calls = 0
        self.turn = 0
        self._turns = turns

    async def stream(self, request: ModelRequest) -> Any:
        self.calls += 1
        outcome = self._turns[self.turn]
        if outcome != "answers":
            raise ModelError(f"{self.name} fails", kind=outcome)  # type: ignore[arg-type]
        async for piece in ScriptedModel([self.name], name=self.name).stream(request):
            yield piece


OUTCOMES = st.sampled_from(("answers", *KINDS))


@settings(max_examples=15, deadline=None)
@given(
    turns=st.lists(st.tuples(OUTCOMES, OUTCOMES, OUTCOMES), min_size=1, max_size=5),
    failures=st.integers(1, 3),
)
def test_the_first_model_that_can_answers_and_each_call_is_billed_once(
    tmp_path_factory: pytest.TempPathFactory, turns: list[tuple[str, str, str]], failures: int
) -> None:
    names = ("m-0", "m-1", "m-2")
    MODELS.update({name: Told(name, [turn[place] for turn in turns]) for place, name in enumerate(names)})
    folder = tmp_path_factory.mktemp("chain")
    write_agent(folder)
    (folder / "scripted.py").write_text(SCRIPTED)
    price = {"max_input_tokens": 9_000, "output_cost_per_token": 0}
    config = {
        "version": 1,
        "model": {
            "chain": [{"scripted": {"model": name}} for name in names],
            "breaker": {"failures": failures, "seconds": 10_000},
        },
        "retry": {"attempts": 1},
        "plugins": {"files": ["scripted.py"]},
        "profiles": {
            "models": {name: {**price, "input_cost_per_token": 10**place} for place, name in enumerate(names)}
        },
    }
    path = folder / "zeus.yaml"
    path.write_text(json.dumps(config))

    async def runs() -> list[list[Event]]:
        found = []
        async with Agent.from_config(path, directory=folder) as agent:
            for number in range(len(turns)):
                for each in MODELS.values():
                    each.turn = number
                found.append(await play(agent, "go"))
        return found

    in_a_row, asked = [0, 0, 0], [0, 0, 0]
    for events, turn in zip(asyncio.run(runs()), turns, strict=True):
        order = sorted(range(3), key=lambda place: (in_a_row[place] >= failures, place))
        able = [place for place in order if turn[place] == "answers"]
        for place in order[: order.index(able[0]) + 1] if able else order:
            asked[place] += 1
            in_a_row[place] = 0 if turn[place] == "answers" else in_a_row[place] + 1
        usages = only(events, TokenUsage)
        if not able:
            assert isinstance(events[-1], RunFailed)
            assert not usages
            continue
        assert events[-1].answer == names[able[0]]  # type: ignore[union-attr]
        (usage,) = usages
        assert usage.cost_usd == usage.prompt_tokens * 10 ** able[0]
    assert [MODELS[name].calls for name in names] == asked


async def test_a_resumed_turn_stays_with_the_model_that_answered_in_it(tmp_path: Path) -> None:
    """The log alone decides: another agent takes up the turn, and has seen no failure."""
    slow = Call("echo", json.dumps({"text": "x"}))
    with Provider(Reply("oops", status=500), Reply(calls=[slow]), Reply("done")) as provider:
        path = write_chain(tmp_path, provider)
        async with Agent.from_config(path, directory=tmp_path) as agent:
            stream = agent.stream("go")
            session = ""
            async for event in stream:
                session = event.session if isinstance(event, RunStarted) else session
                if event.type == "tool_call_result":
                    break
            await stream.aclose()
        async with Agent.from_config(path, directory=tmp_path) as agent:
            events = [event async for event in agent.resume(session)]
        assert wires(provider) == ["gpt", "claude", "claude"]
    assert [each.model for each in only(events, RunStarted)] == [CLAUDE]
    assert events[-1].answer == "done"  # type: ignore[union-attr]
