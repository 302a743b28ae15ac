"""Budgets, sizes, and when an edit costs more of the cached prefix than it saves."""

from __future__ import annotations

from dataclasses import replace

import pytest
from langchain_core.messages import BaseMessage, HumanMessage

from zeus_runtime.config.schema.annotations import BuildError, build, schema_of
from zeus_runtime.context import Budget, DropBefore, Edit, Evict, Size, Summarize, check_sizes, fold
from zeus_runtime.context.edit_rules import Cached, Reported, breaks_cache, review
from zeus_runtime.errors import OptionsError
from zeus_runtime.models.profiles import ModelProfile

KNOWN = ModelProfile("m", max_input_tokens=100_000, known=True)
UNKNOWN = ModelProfile("m")
TEXT = "x" * 40_000


def test_a_budget_says_what_is_left_of_the_window() -> None:
    budget = Budget(100_000, 20_000, fixed_tokens=5_000, used_tokens=60_000, messages=12)
    assert (budget.usable_tokens, budget.available, budget.fraction_used) == (80_000, 20_000, 0.75)
    assert budget.at_least(Size(tokens=60_000))
    assert not budget.at_least(Size(tokens=60_001))
    assert budget.at_least(Size(messages=12))
    assert not budget.at_least(Size(messages=13))
    assert budget.at_least(Size(fraction=0.75))
    assert not budget.at_least(Size(fraction=0.76))


def test_an_overflow_reaches_every_trigger() -> None:
    budget = Budget(100_000, overflow=True)
    assert all(budget.at_least(size) for size in (Size(tokens=9), Size(messages=9), Size(fraction=1.0)))


def test_eighty_five_percent_of_an_unknown_model_is_54400() -> None:
    assert Budget(UNKNOWN.max_input_tokens).tokens_of(Size(fraction=0.85)) == 54_400


@pytest.mark.parametrize("value", [{}, {"tokens": 5, "messages": 3}, {"tokens": None}])
def test_a_size_is_exactly_one_of_three(value: dict[str, int]) -> None:
    with pytest.raises(BuildError, match="exactly one of tokens, messages, fraction"):
        build(Size, value)
    schema = schema_of(Size)
    assert (schema["minProperties"], schema["maxProperties"]) == (1, 1)


@pytest.mark.parametrize("value", [{"tokens": 0}, {"fraction": 0}, {"fraction": 1.5}, {"messages": -1}])
def test_a_size_is_in_its_range(value: dict[str, int]) -> None:
    with pytest.raises(BuildError):
        build(Size, value)


@pytest.mark.parametrize(
    ("profile", "trigger", "keep", "part", "where"),
    [
        (UNKNOWN, Size(fraction=0.8), None, "needs a known window", "trigger"),
        (UNKNOWN, Size(tokens=50_000), Size(fraction=0.1), "needs a known window", "keep"),
        (KNOWN, Size(tokens=170_000), None, "would never be reached", "trigger"),
        (KNOWN, Size(fraction=0.1), Size(fraction=0.1), "must be above what is kept", "trigger"),
        (KNOWN, Size(fraction=0.1), Size(tokens=10_000), "must be above what is kept", "trigger"),
        (KNOWN, Size(messages=5), Size(messages=6), "must be above what is kept", "trigger"),
    ],
)
def test_sizes_that_cannot_work_are_refused_at_load(
    profile: ModelProfile, trigger: Size, keep: Size | None, part: str, where: str
) -> None:
    with pytest.raises(OptionsError, match=part) as caught:
        check_sizes(profile, trigger=trigger, keep=keep)
    assert caught.value.where == where
    assert caught.value.remedy


def test_sizes_that_can_work_pass() -> None:
    check_sizes(KNOWN, trigger=Size(fraction=0.85), keep=Size(messages=5))
    check_sizes(UNKNOWN, trigger=Size(tokens=60_000), keep=Size(tokens=10_000))
    check_sizes(UNKNOWN, trigger=Size(messages=20), keep=Size(messages=19))


def test_a_reported_size_replaces_the_estimate_of_all_that_was_sent() -> None:
    reported = Reported(12_000, 10_000)
    assert [reported.tokens(counted) for counted in (10_000, 10_500, 5_000)] == [12_000, 12_500, 6_000]


def long_thread(count: int) -> list[BaseMessage]:
    return [HumanMessage(TEXT) for _ in range(count)]


def small(seq: int) -> Edit:
    return Evict("p", "r", seq, TEXT[:-8_000], f"/{seq}")


def large(seq: int) -> Edit:
    return Evict("p", "r", seq, "pointer", f"/{seq}")


CACHE = Cached(None, read_price=0.1, write_price=1.25)
LITTLE_USED = Budget(1_000_000, used_tokens=100_000)


def cached(view: object) -> Cached:
    return Cached(view, CACHE.read_price, CACHE.write_price)  # type: ignore[arg-type]


def test_a_small_saving_early_in_a_cached_prefix_is_refused() -> None:
    view = fold(long_thread(10), [])
    reason = breaks_cache(view, [small(1)], LITTLE_USED, cached(view))
    assert reason == "100,040 cached tokens would be sent anew to save 2,000"


def test_a_large_saving_late_in_it_pays() -> None:
    view = fold(long_thread(10), [])
    assert breaks_cache(view, [large(9)], LITTLE_USED, cached(view)) is None
    assert breaks_cache(view, [large(seq) for seq in range(1, 7)], LITTLE_USED, cached(view)) is None


def test_what_arrived_since_the_last_call_is_free_to_change() -> None:
    history = long_thread(10)
    sent = fold(history, [], 9)
    assert breaks_cache(fold(history, []), [small(10)], LITTLE_USED, cached(sent)) is None
    assert breaks_cache(fold(history, []), [small(2)], LITTLE_USED, cached(sent)) is not None


def test_under_pressure_room_is_worth_more_than_the_prefix() -> None:
    view = fold(long_thread(10), [])
    tight = Budget(200_000, used_tokens=100_000)
    assert breaks_cache(view, [small(1)], tight, cached(view)) is None
    assert breaks_cache(view, [small(1)], Budget(1_000_000, overflow=True), cached(view)) is None


def test_before_the_first_call_nothing_is_cached_and_any_edit_is_free() -> None:
    view = fold(long_thread(10), [])
    assert breaks_cache(view, [small(1)], LITTLE_USED, cached(None)) is None
    assert breaks_cache(view, [small(1)], LITTLE_USED, cached(view)) is not None


def test_a_prefix_that_is_too_short_to_be_cached_is_free_and_one_of_just_that_size_is_not() -> None:
    view = fold(long_thread(10), [])
    size = view.tokens
    just = Cached(view, CACHE.read_price, CACHE.write_price, minimum_tokens=size)
    assert breaks_cache(view, [small(1)], LITTLE_USED, just) is not None
    assert breaks_cache(view, [small(1)], LITTLE_USED, replace(just, minimum_tokens=size + 1)) is None


def test_at_the_pressure_itself_room_is_worth_more() -> None:
    view = fold(long_thread(10), [])
    for used, free in ((500_000, True), (499_999, False)):
        budget = Budget(1_000_000, used_tokens=used)
        assert (breaks_cache(view, [small(1)], budget, cached(view)) is None) is free, used


def test_what_a_broken_prefix_costs_is_the_price_of_writing_beyond_that_of_reading() -> None:
    """100,040 tokens anew at 1.0 - 0.5 are dearer than 2,000 saved at 0.5 in 20 calls; at 1.0 - 0.99 they are not."""
    view = fold(long_thread(10), [])
    dear, cheap = Cached(view, 0.5, 1.0), Cached(view, 0.99, 1.0)
    assert breaks_cache(view, [small(1)], LITTLE_USED, dear) is not None
    assert breaks_cache(view, [small(1)], LITTLE_USED, cheap) is None


def test_without_a_cache_price_nothing_is_lost_and_cuts_are_the_policys_own_affair() -> None:
    view = fold(long_thread(10), [])
    assert breaks_cache(view, [small(1)], LITTLE_USED, Cached(view, 1.0, 1.0)) is None
    assert breaks_cache(view, [DropBefore("p", "r", 2)], LITTLE_USED, cached(view)) is None


def test_a_summary_may_be_replaced_where_it_stands_and_a_cut_that_was_made_is_not_made_again() -> None:
    summarized = fold(long_thread(10), [Summarize("p", "r", 5, "a long summary " * 500, "/one")])
    assert review(summarized, Summarize("p", "r", 5, "short", "/two")) is None
    cut = fold(long_thread(10), [DropBefore("p", "r", 5)])
    again = review(cut, DropBefore("p", "r", 5))
    assert again is not None
    assert again.reason == "it does not shrink the view"
