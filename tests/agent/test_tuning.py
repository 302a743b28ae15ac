"""The search for cheaper context policies: its laws on made-up prices, and the pieces that it is measured on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage

from zeus_runtime.agent.tuning import (
    Bounds,
    Candidate,
    Line,
    TrialFigures,
    TunedOption,
    Tuning,
    divided,
    figures_from_json,
    figures_json,
    written,
)
from zeus_runtime.context.replay.recordings import Recording, recording

KEEP = TunedOption(0, "summarization", "keep", (1, 2, 3, None), 2)
SIZE = TunedOption(1, "eviction", "max_tokens", (10, 20, 30, 40), 30)
PRICE = TunedOption(0, "summarization", "by_price", (False, True), False)
LIFETIME = TunedOption(0, "summarization", "lifetime", ("5m", "1h", "2h"), "5m")
GONE = TunedOption(1, "eviction", None, (False, True))
CHOICES = (KEEP, SIZE, PRICE, LIFETIME, GONE)
PRESENT: Candidate = (Line("summarization", {}), Line("eviction", {"max_tokens": 25}))


def key(lines: Candidate) -> str:
    return json.dumps(written(lines))


class Prices:
    """A made-up world: each candidate has figures that depend on its values alone."""

    def __init__(
        self, weights: Mapping[str, Mapping[str, float]], faults: Mapping[str, TrialFigures | None]
    ) -> None:
        self.asked: list[str] = []
        self._weights = weights
        self._faults = faults

    def figures(self, lines: Candidate) -> TrialFigures | None:
        if key(lines) in self._faults:
            return self._faults[key(lines)]
        cost = 100.0
        for choice in CHOICES:
            cost += self._weights.get(str(choice), {}).get(json.dumps(choice.value(lines)), 0.0)
        return TrialFigures(cost_usd=cost, needles_kept=100, needles_needed=100, summaries=4)

    async def measure(self, lines: Candidate) -> TrialFigures | None:
        self.asked.append(key(lines))
        return self.figures(lines)


def searched(world: Prices, bounds: Bounds | None = None) -> tuple[Tuning, list[str]]:
    told: list[str] = []

    def improved(choice: TunedOption, value: Any, figures: TrialFigures) -> None:
        told.append(f"{choice}={json.dumps(value)} {figures.price:g}")

    tuning = Tuning(PRESENT, CHOICES, world.measure, bounds or Bounds(), improved)
    asyncio.run(tuning.run())
    return tuning, told


weights = st.dictionaries(
    st.sampled_from([str(each) for each in CHOICES]),
    st.dictionaries(
        st.sampled_from([json.dumps(value) for each in CHOICES for value in each.values]),
        st.integers(-15, 15),
    ),
)


@given(weights)
def test_the_best_candidate_is_never_dearer_and_no_neighbour_is_cheaper(given: Any) -> None:
    world = Prices(given, {})
    tuning, told = searched(world)
    assert tuning.figures == world.figures(tuning.best)
    assert tuning.figures.price <= tuning.present.price
    assert len(world.asked) == len(set(world.asked)), "no candidate is replayed twice"
    assert (tuning.best == PRESENT) == (not told)
    assert searched(Prices(given, {}))[0].best == tuning.best
    if tuning.best[1] is not None:
        for choice, value in ((PRICE, True), (PRICE, False), (GONE, False)):
            found = world.figures(choice.changed(tuning.best, value))
            assert found is not None
            assert found.price > tuning.figures.price * 0.995 - 1e-9


@given(weights)
def test_each_asked_candidate_was_foretold_or_is_further_along(given: Any) -> None:
    """The search asks for what it foretold; what it is told there never changes what it finds."""
    world, foretold = Prices(given, {}), []

    def ahead(candidates: Any) -> None:
        foretold.extend(map(key, candidates))

    tuning = Tuning(PRESENT, CHOICES, world.measure, Bounds(), lambda *_: None, ahead)
    asyncio.run(tuning.run())
    assert set(world.asked[1:]) <= set(foretold)
    assert tuning.best == searched(Prices(given, {}))[0].best


@given(weights)
def test_each_change_saves_what_it_costs_to_set_it_back(given: Any) -> None:
    world = Prices(given, {})
    tuning, _ = searched(world)
    changes = asyncio.run(tuning.changes())
    by_name = {str(each): each for each in CHOICES}
    for change in changes:
        choice = by_name[change.option]
        assert choice.value(tuning.best) == change.after != change.before == choice.value(PRESENT)
        assert change.saves > 0
    if not changes:
        assert tuning.best == PRESENT


def test_it_walks_along_an_option_as_long_as_that_helps_and_stops_where_it_does_not() -> None:
    world = Prices({"eviction.max_tokens": {"20": -10, "10": -30, "30": -1}}, {})
    tuning, told = searched(world)
    assert told == ["eviction.max_tokens=30 99", "eviction.max_tokens=20 90", "eviction.max_tokens=10 70"]
    assert written(tuning.best) == ["summarization", {"eviction": {"max_tokens": 10}}]


def test_it_walks_over_values_that_change_nothing_and_not_over_worse_ones() -> None:
    world = Prices({"eviction.max_tokens": {"10": -30}}, {})
    assert searched(world)[1] == ["eviction.max_tokens=10 70"]
    world = Prices({"eviction.max_tokens": {"10": -30, "20": 5}}, {})
    assert searched(world)[1] == []


def test_a_candidate_that_breaks_a_bound_is_refused_however_cheap_it_is() -> None:
    cheap = {"summarization.by_price": {"true": -50}}
    wanted = key(PRICE.changed(PRESENT, True))
    kept = TrialFigures(cost_usd=50.0, needles_kept=100, needles_needed=100, summaries=4)
    for fault in (
        None,
        TrialFigures(cost_usd=50.0, needles_kept=98, needles_needed=100, summaries=4),
        TrialFigures(cost_usd=50.0, needles_kept=100, needles_needed=100, summaries=7),
        TrialFigures(cost_usd=50.0, needles_kept=100, needles_needed=100, summaries=4, overflows=1),
        TrialFigures(cost_usd=50.0, needles_kept=100, needles_needed=100, summaries=4, failure="ended"),
        # Hardly cheaper is not cheaper.
        TrialFigures(cost_usd=99.6, needles_kept=100, needles_needed=100, summaries=4),
    ):
        assert searched(Prices(cheap, {wanted: fault}))[1] == []
    assert searched(Prices({}, {wanted: kept}))[1] == ["summarization.by_price=true 50"]
    seven = TrialFigures(cost_usd=50.0, needles_kept=90, needles_needed=100, summaries=7)
    assert searched(Prices({}, {wanted: seven}), Bounds(keep=0.9, summaries=2))[1] == [
        "summarization.by_price=true 50"
    ]


def test_one_more_summary_is_always_allowed() -> None:
    none = TrialFigures(summaries=0)
    assert Bounds().broken(TrialFigures(summaries=1), none) == ""
    assert "2 times" in Bounds().broken(TrialFigures(summaries=2), none)


def test_the_search_ends_where_it_is_stopped_with_the_best_so_far() -> None:
    world = Prices({"summarization.keep": {"1": -30}, "eviction.max_tokens": {"30": -10}}, {})

    async def run() -> Tuning:
        def improved(*_: Any) -> None:
            tuning.stopped = True

        tuning = Tuning(PRESENT, CHOICES, world.measure, Bounds(), improved)
        await tuning.run()
        return tuning

    assert written(asyncio.run(run()).best)[0] == {"summarization": {"keep": 1}}
    assert len(world.asked) < 5


def test_without_a_price_the_tokens_decide() -> None:
    one = TrialFigures(cost_usd=None, sent_tokens=900) + TrialFigures(cost_usd=1.0, sent_tokens=100)
    assert (one.cost_usd, one.price) == (None, 1000)
    assert (TrialFigures(cost_usd=1.0) + TrialFigures(cost_usd=0.5)).price == 1.5


@given(st.builds(TrialFigures, cost_usd=st.none() | st.floats(0, 9), failure=st.text(max_size=5)))
def test_figures_are_stored_and_read_back(figures: TrialFigures) -> None:
    assert figures_from_json(json.loads(json.dumps(figures_json(figures)))) == figures


def talk(name: str, answers: int) -> Recording:
    return recording(name, [each for _ in range(answers) for each in (HumanMessage("a"), AIMessage("b"))])


@given(st.integers(2, 12))
def test_every_session_is_tuned_on_or_held_out_and_some_are_each(count: int) -> None:
    sessions = [talk(f"s{index}", 1) for index in range(count)]
    tuned, held = divided(sessions)
    names = [each.recording.name for each in (*tuned, *held)]
    assert sorted(names) == sorted(each.name for each in sessions)
    assert tuned
    assert held
    assert abs(len(held) - count / 5) <= 1


@given(st.integers(6, 40))
def test_of_a_lone_session_the_last_third_is_held_out(answers: int) -> None:
    whole = talk("s", answers)
    (tuned,), (held,) = divided([whole])
    assert tuned.from_place == 0
    assert held.recording == whole
    counted = [
        place for place, each in enumerate(whole.messages) if each.type == "ai" and place >= held.from_place
    ]
    seen = [each for each in tuned.recording.messages if each.type == "ai"]
    assert len(seen) + len(counted) == answers
    assert len(counted) >= answers // 3
