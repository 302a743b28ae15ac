"""The simulated provider: it counts, keeps its window, caches, charges, and looks for needles."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from zeus_runtime.context.replay.provider_simulator import SimulatedProvider, outcome
from zeus_runtime.context.tokens import counter_for, request_tokens
from zeus_runtime.models.interface import CachePoints
from zeus_runtime.models.profiles import ModelProfile
from zeus_runtime.plugin.model import ModelError, ModelRequest

GPT = ModelProfile(
    "gpt-5",
    "openai",
    max_input_tokens=4000,
    tokenizer="o200k_base",
    input_cost_per_token=1e-6,
    output_cost_per_token=1e-5,
    cache_read_cost_per_token=1e-7,
    known=True,
)
CLAUDE = ModelProfile(
    "anthropic/claude-sonnet-4-5",
    "anthropic",
    max_input_tokens=4000,
    tokenizer="o200k_base",
    input_cost_per_token=1e-6,
    output_cost_per_token=1e-5,
    cache_read_cost_per_token=1e-7,
    cache_write_cost_per_token=1.25e-6,
    cache_write_1h_cost_per_token=2e-6,
    known=True,
)
SYSTEM = "You are a careful worker. " * 300


def provider(profile: ModelProfile = GPT, *, marked: bool = False) -> SimulatedProvider:
    return SimulatedProvider(profile, counter_for(profile), marked=marked)


def request(messages: Sequence[BaseMessage], points: CachePoints | None = None) -> ModelRequest:
    return ModelRequest(SYSTEM, messages, stable_system_length=len(SYSTEM), cache_points=points)


def send(
    simulated: SimulatedProvider, messages: Sequence[BaseMessage], place: int = 1, **more: object
) -> None:
    simulated.expect(AIMessage("yes"), place=place, at_seconds=place)
    simulated.answer(request(messages, **more))  # type: ignore[arg-type]


TALK = [HumanMessage("go on " * 100), AIMessage("yes"), HumanMessage("and on")]


def test_it_gives_the_recorded_answer_and_its_own_exact_count() -> None:
    simulated = provider()
    simulated.expect(AIMessage("yes"), place=1, at_seconds=0)
    response = simulated.answer(request(TALK[:1]))
    assert response.message.content == "yes"
    assert response.usage is not None
    assert response.usage.input_tokens == request_tokens(counter_for(GPT), request(TALK[:1]))


def test_a_summary_is_not_charged_as_a_write_to_the_cache_because_turns_are_marked() -> None:
    simulated = provider(CLAUDE, marked=True)
    send(simulated, TALK[:1])
    asked = ModelRequest("", [HumanMessage("Summarize: " + "go on " * 1500)], purpose="summary")
    simulated.answer(asked)
    assert [call.written_tokens > 0 for call in simulated.calls] == [True, False]


def test_the_second_request_reads_the_first_from_the_cache_and_is_charged_so() -> None:
    simulated = provider()
    send(simulated, TALK[:1])
    send(simulated, TALK, 3)
    first, second = simulated.calls
    assert first.read_tokens == 0
    assert second.read_tokens == first.input_tokens // 128 * 128
    assert second.shared_tokens == first.input_tokens
    fresh = second.input_tokens - second.read_tokens
    assert second.cost_usd == pytest.approx(
        fresh * 1e-6 + second.read_tokens * 1e-7 + second.output_tokens * 1e-5
    )


def test_a_request_beyond_the_window_is_refused_with_the_true_numbers() -> None:
    simulated = provider()
    simulated.expect(AIMessage("yes"), place=1, at_seconds=0)
    with pytest.raises(ModelError, match="maximum context length is 4000 tokens") as refused:
        simulated.answer(request([HumanMessage("too much " * 4000)]))
    assert refused.value.kind == "context_overflow"
    assert refused.value.limit_tokens == 4000
    assert refused.value.input_tokens == simulated.calls[0].input_tokens > 4000
    send(simulated, TALK[:1])
    assert outcome("s", "p", simulated, compacted=frozenset()).overflows == 1


def test_anthropic_caches_only_at_cache_points() -> None:
    unmarked, marked = provider(CLAUDE), provider(CLAUDE)
    points = CachePoints(system=True, messages=(0,))
    for simulated, given in ((unmarked, None), (marked, points)):
        for place in (1, 2):
            send(simulated, TALK[:1], place, points=given)
    assert [(call.read_tokens, call.written_tokens) for call in unmarked.calls] == [(0, 0), (0, 0)]
    total = marked.calls[0].input_tokens
    assert [(call.read_tokens, call.written_tokens) for call in marked.calls] == [(0, total), (total, 0)]


def test_writing_for_an_hour_costs_its_own_price_and_lasts() -> None:
    simulated = provider(CLAUDE)
    hour = CachePoints(messages=(0,), lifetime="1h")
    send(simulated, TALK[:1], 0, points=hour)
    send(simulated, TALK[:1], 3000, points=hour)
    first, second = simulated.calls
    assert first.cost_usd == pytest.approx(first.input_tokens * 2e-6 + first.output_tokens * 1e-5)
    assert second.read_tokens == first.input_tokens


def test_a_summary_has_the_stated_length_and_takes_no_recorded_answer() -> None:
    simulated = SimulatedProvider(GPT, counter_for(GPT), summary_tokens=200)
    summary = simulated.answer(ModelRequest("", TALK, purpose="summary"))
    assert abs(counter_for(GPT).text(str(summary.message.content)) - 200) <= 10
    send(simulated, TALK[:1])
    found = outcome("s", "p", simulated, compacted=frozenset({1}))
    assert (found.steps, found.summaries, found.compactions) == (1, 1, 1)
    assert found.sent_tokens == sum(call.input_tokens for call in simulated.calls)


def test_a_needle_is_kept_if_the_request_shows_it() -> None:
    simulated = provider()
    for place, needle in ((1, "and on"), (2, "omar_3817")):
        simulated.expect(AIMessage("yes"), place=place, at_seconds=0, needles=(needle,))
        simulated.answer(request(TALK))
    found = outcome("s", "p", simulated, compacted=frozenset(), needles=(1, 2))
    assert (found.needles_kept, found.needles_needed) == (2, 4)
    assert simulated.holds("and on")
    assert not simulated.holds("omar_3817")


def test_the_reusable_share_leaves_compaction_steps_out() -> None:
    simulated = provider()
    send(simulated, TALK[:1], 1)
    send(simulated, TALK, 3)
    send(simulated, [HumanMessage("summary"), *TALK[2:]], 5)
    kept = outcome("s", "p", simulated, compacted=frozenset({5}))
    broken = outcome("s", "p", simulated, compacted=frozenset())
    assert kept.reusable_share > 0.9 > 0.0
    assert broken.reusable_share < kept.reusable_share
