"""A compaction that is due beside cheaper edits: their prices, and the part of the edits that is taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from zeus_runtime.context import Edit, Evict, View, fold
from zeus_runtime.context.offers import (
    Cheaper,
    CompactionOffer,
    Shortening,
    TokenPrices,
    best_part,
    token_prices,
)
from zeus_runtime.models.profiles import ModelProfile

PRICES = TokenPrices(again=1.0, anew=11.0)


async def nothing() -> Sequence[Edit]:
    return ()


OFFER = CompactionOffer("summary", "due", 90, (), 0, 1_000, nothing, price_usd=10_000.0)


def view_of(sizes: Sequence[int]) -> View:
    """Messages of so many tokens each."""
    messages: list[BaseMessage] = [
        (HumanMessage if place % 2 == 0 else AIMessage)("x" * 4 * (size - 4))
        for place, size in enumerate(sizes)
    ]
    return fold(messages, [])


def short(seq: int, saved: int) -> Shortening:
    return Shortening(Evict("p", "r", seq, "…", "/h"), saved)


def best(
    view: View,
    shortenings: Sequence[Shortening],
    offer: CompactionOffer = OFFER,
    *,
    sent: View | None = None,
    reach: int = 0,
    needed: int = 0,
) -> Cheaper | None:
    return best_part(
        view,
        shortenings,
        offer,
        prices=PRICES,
        sent=sent,
        reach=reach,
        fits=lambda saved: saved >= needed,
    )


def test_as_much_room_as_the_compaction_makes_is_worth_its_price() -> None:
    assert OFFER.worth_usd(1_000) == OFFER.worth_usd(5_000) == 10_000
    assert OFFER.worth_usd(0) == 0
    assert OFFER.worth_usd(250) == 2_500


def test_carrying_the_rest_along_makes_part_of_the_room_worth_less() -> None:
    offer = replace(OFFER, spent_usd=10_000.0)
    assert offer.worth_usd(1_000) == 10_000
    assert offer.worth_usd(500) == 2_500
    assert replace(OFFER, spent_usd=20_000.0).worth_usd(500) == 0
    assert replace(OFFER, spent_usd=20_000.0).worth_usd(250) < 0


def test_the_cost_is_that_of_the_cached_messages_behind_the_first_change() -> None:
    view = view_of([100, 300, 200, 400])
    part = best(view, [short(2, 250)], sent=view)
    assert part is not None
    assert part.cost_usd == (50 + 200 + 400) * 10
    sent = view_of([100, 300, 200])
    part = best(view, [short(2, 250)], sent=sent)
    assert part is not None
    assert part.cost_usd == (50 + 200) * 10, "the newest message was never cached"


def test_without_a_cached_prefix_edits_save_money_at_once() -> None:
    part = best(view_of([100, 300, 200]), [short(2, 250)])
    assert part is not None
    assert part.cost_usd == -250 * 11
    assert part.pays


def test_a_change_beyond_the_caches_reach_loses_the_whole_prefix() -> None:
    view = view_of([100, 300, 200, 400])
    near, far = (
        best(view, [short(2, 250)], sent=view, reach=3),
        best(view, [short(2, 250)], sent=view, reach=2),
    )
    assert near is not None
    assert far is not None
    assert near.cost_usd == 650 * 10
    assert far.cost_usd == 750 * 10
    both = best(view, [short(2, 250), short(1, 10)], replace(OFFER, price_usd=1e9), sent=view, reach=2)
    assert both is not None
    assert both.cost_usd == 740 * 10, "no message is counted twice"


def test_an_old_edit_that_would_break_a_long_prefix_is_left_out() -> None:
    view = view_of([100, 300, 5_000, 900, 10])
    part = best(view, [short(2, 250), short(4, 800)], sent=view)
    assert part is not None
    assert [edit.seq for edit in part.edits] == [4]
    assert (part.saved_tokens, part.cost_usd) == (800, 110 * 10)


def test_a_part_that_makes_enough_room_is_preferred_to_a_cheaper_one() -> None:
    view = view_of([100, 300, 5_000, 900, 10])
    part = best(view, [short(2, 250), short(4, 800)], sent=view, needed=801)
    assert part is not None
    assert [edit.seq for edit in part.edits] == [2, 4]
    assert part.is_enough
    assert not part.pays
    part = best(view, [short(2, 250)], needed=801)
    assert part is not None
    assert not part.is_enough
    assert not part.pays, "however little it costs"


def test_without_a_price_all_edits_together_count_as_free() -> None:
    view = view_of([100, 300, 5_000, 900, 10])
    part = best(view, [short(2, 250), short(4, 800)], replace(OFFER, price_usd=None), sent=view, needed=900)
    assert part is not None
    assert (part.saved_tokens, part.cost_usd, part.worth_usd, part.pays) == (1_050, 0, 0, True)


def test_without_edits_there_is_nothing_to_choose() -> None:
    assert best(view_of([10]), []) is None


@given(
    st.lists(st.tuples(st.integers(5, 400), st.floats(0, 1)), min_size=1, max_size=12),
    st.integers(0, 12),
    st.integers(0, 12),
    st.integers(0, 20_000),
)
def test_no_part_gains_more_than_the_chosen_one(
    messages: list[tuple[int, float]], sent: int, reach: int, spent: int
) -> None:
    view = view_of([size for size, _ in messages])
    cached = view_of([size for size, _ in messages[:sent]]) if sent else None
    offer = replace(OFFER, spent_usd=float(spent))
    shortenings = [
        short(seq, round(share * size)) for seq, (size, share) in enumerate(messages, start=1) if share
    ]
    part = best(view, shortenings, offer, sent=cached, reach=reach)
    gains = []
    for first in {each.edit.seq for each in shortenings}:
        taken = [each for each in shortenings if each.edit.seq >= first]
        saved = sum(each.saved_tokens for each in taken)
        start = 1 if reach and len(messages) - first + 1 > reach else first
        upto = 0 if cached is None else cached.upto
        behind = sum(size for seq, (size, _) in enumerate(messages, start=1) if start <= seq <= upto)
        behind -= sum(each.saved_tokens for each in taken if each.edit.seq <= upto)
        cost = -saved * 11.0 if cached is None else behind * 10.0
        gains.append(offer.worth_usd(saved) - cost)
    assert (part is None) == (not gains)
    if part is not None:
        assert part.worth_usd - part.cost_usd == pytest.approx(max(gains))
        assert [edit.seq for edit in part.edits] == sorted(edit.seq for edit in part.edits)


def test_without_a_cache_price_a_changed_prefix_costs_nothing() -> None:
    profile = ModelProfile("m", input_cost_per_token=2.0)
    assert token_prices(profile) == (2.0, 2.0)
    assert token_prices(replace(profile, cache_read_cost_per_token=0.2)) == (0.2, 2.0)
    assert token_prices(replace(profile, cache_read_cost_per_token=0.2, cache_write_cost_per_token=2.5)) == (
        0.2,
        2.5,
    )
    assert token_prices(ModelProfile("m")) == (0.0, 0.0)
