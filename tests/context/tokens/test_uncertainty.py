"""A margin for what a count does not know: it follows an undercount at once and goes back slowly."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeus_runtime.context.tokens import counter_for
from zeus_runtime.context.tokens.uncertainty import ESTIMATED, Uncertainty, first_share
from zeus_runtime.models.profiles import ModelProfile

COUNTED = st.integers(100, 1_000_000)


@given(share=st.floats(0, 1), counted=COUNTED, excess=st.floats(0, 1))
def test_the_same_request_fits_into_its_margin_once_it_was_reported(
    share: float, counted: int, excess: float
) -> None:
    reported = int(counted * (1 + excess))
    uncertainty = Uncertainty(share)
    uncertainty.learn(counted, reported)
    assert counted + uncertainty.tokens(counted) >= reported


@given(share=st.floats(0, 1), counted=COUNTED, reports=st.lists(st.floats(0, 5), max_size=20))
def test_the_margin_is_never_negative_nor_more_than_the_count(
    share: float, counted: int, reports: list[float]
) -> None:
    uncertainty = Uncertainty(share)
    for each in reports:
        uncertainty.learn(counted, int(counted * each))
    assert 0 <= uncertainty.tokens(counted) <= counted


def test_a_good_count_halves_it_and_a_small_undercount_takes_it_no_lower() -> None:
    uncertainty = Uncertainty(0.4)
    uncertainty.learn(1_000, 900)
    assert uncertainty.share == 0.2
    uncertainty.learn(1_000, 1_050)
    assert uncertainty.share == 0.1
    uncertainty.learn(1_000, 1_080)
    assert uncertainty.share == pytest.approx(0.08)


@pytest.mark.parametrize("counted", [-500, 0, 99])
def test_few_tokens_and_a_shortened_request_teach_nothing(counted: int) -> None:
    uncertainty = Uncertainty(0.25)
    uncertainty.learn(counted, 5_000)
    assert uncertainty.share == 0.25
    assert uncertainty.tokens(-500) == 0


def _first(name: str, provider: str, tokenizer: str = "estimate") -> float:
    return first_share(counter_for(ModelProfile(name, provider=provider, tokenizer=tokenizer)))


def test_the_margin_is_wider_the_less_is_known_of_a_family() -> None:
    known, unknown = _first("claude-sonnet-4-5", "anthropic"), _first("nobody-knows-it-1", "acme")
    assert 0.06 < known < 0.09 < 2 * known < unknown == pytest.approx(ESTIMATED, abs=0.01)
    assert _first("gpt-5", "openai", "o200k_base") == 0


def test_a_plugins_counter_need_not_say_how_uncertain_it_is() -> None:
    class Plain:
        exact = False

    class Exact:
        exact = True

    assert (first_share(Plain()), first_share(Exact())) == (ESTIMATED, 0)  # type: ignore[arg-type]
