"""The forecast of a session's window and costs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeus_runtime.context.inspection import forecast
from zeus_runtime.context.inspection.forecast import quantile
from zeus_runtime.context.ledger import PolicyDecision, StepRecord


def step(number: int, tokens: int, *, compacts: bool = False, **more: object) -> StepRecord:
    made = (PolicyDecision("summarization", "summarize", True, "full"),) if compacts else ()
    return StepRecord(
        number, "run", number, 0, input_limit_tokens=1000, expected_tokens=tokens, decisions=made
    ).override(**more)


def test_without_a_compaction_the_window_ends_the_runway() -> None:
    found = forecast([step(1, 100), step(2, 200), step(3, 400), step(4, 500, cost_usd=0.5)])
    assert found is not None
    assert (found.until, found.limit_tokens, found.growth_tokens, found.steps) == ("window", 1000, 100, 5)
    assert (found.cost_p50_usd, found.cost_p90_usd) == (0.5, 0.5)


def test_after_compactions_their_size_is_the_limit() -> None:
    sizes = [300, 600, (100, True), 400, 700, (100, True), 400]
    steps = [
        step(number, each[0] if isinstance(each, tuple) else each, compacts=isinstance(each, tuple))
        for number, each in enumerate(sizes, start=1)
    ]
    found = forecast(steps)
    assert found is not None
    assert (found.until, found.limit_tokens, found.growth_tokens, found.steps) == ("compaction", 650, 300, 1)


def test_failed_calls_and_compactions_on_request_do_not_count() -> None:
    counted = [step(1, 100), step(2, 200)]
    others = [step(3, 900, error="model_error"), step(4, 10, cause="compact")]
    assert forecast([*counted, *others]) == forecast(counted)
    assert forecast(others) is None


@given(st.lists(st.integers(0, 2000), min_size=1, max_size=30))
def test_the_runway_is_never_negative_and_needs_growth(sizes: list[int]) -> None:
    found = forecast([step(number, size) for number, size in enumerate(sizes, start=1)])
    assert found is not None
    assert (found.steps is None) == (found.growth_tokens <= 0)
    assert found.steps is None or found.steps >= 0


@given(st.lists(st.floats(-1e6, 1e6), min_size=1), st.floats(0, 1))
def test_a_quantile_lies_within_its_values(values: list[float], share: float) -> None:
    assert min(values) <= quantile(values, share) <= max(values) or quantile(values, share) == pytest.approx(
        min(values)
    )
