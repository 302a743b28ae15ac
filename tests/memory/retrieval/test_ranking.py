"""Which memories come first, and how they stand in a prompt."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeus_runtime.memory.items import SCOPES, MemoryItem, Scope, Status, Trust
from zeus_runtime.memory.retrieval.ranking import (
    CLOSING,
    OPENING,
    final_score,
    format_memories_for_prompt,
    newest_first,
    rank,
    said_last,
)

NOW = datetime(2026, 5, 1, tzinfo=UTC)


def item(
    name: str = "m1",
    content: str = "The user plays chess",
    *,
    scope: Scope = "user",
    confidence: float = 0.9,
    status: Status = "active",
    trust: Trust = "trusted",
) -> MemoryItem:
    return MemoryItem(
        name, content, "fact", scope, "x", "u1", "user", confidence, NOW, NOW, status=status, trust=trust
    )


ITEMS = st.builds(
    item,
    name=st.uuids().map(str),
    content=st.text(max_size=300),
    scope=st.sampled_from(SCOPES),
    confidence=st.sampled_from([0.0, 0.7, 0.85, 1.0]) | st.floats(0, 1),
)
FOUND = st.lists(
    st.tuples(ITEMS, st.sampled_from([0.0, 0.5, 1.0]) | st.floats(-1, 1)),
    max_size=30,
    unique_by=lambda pair: pair[0].id,
)


@pytest.mark.parametrize(
    ("scope", "expected"),
    [("session", 0.5 + 0.3 + 0.2), ("project", 0.5 + 0.3 + 0.16), ("user", 0.5 + 0.3 + 0.12)],
)
def test_the_score_is_the_sum_of_three(scope: Scope, expected: float) -> None:
    assert final_score(1, 1, scope) == pytest.approx(expected)


def test_the_score_weighs_similarity_confidence_and_scope() -> None:
    assert final_score(0.6, 0.8, "project") == pytest.approx(0.6 * 0.5 + 0.8 * 0.3 + 0.8 * 0.2)


@given(FOUND, st.integers(0, 8))
def test_the_best_are_those_that_sorting_all_by_hand_gives(
    found: list[tuple[MemoryItem, float]], top_k: int
) -> None:
    priority = {"session": 1.0, "project": 0.8, "user": 0.6}
    scored = [
        (similarity * 0.5 + each.confidence * 0.3 + priority[each.scope] * 0.2, similarity, each.id)
        for each, similarity in found
    ]
    expected = sorted(scored, key=lambda one: (-one[0], -one[1], one[2]))[:top_k]
    assert [(one.final_score, one.similarity, one.item.id) for one in rank(found, top_k)] == expected


@given(FOUND, st.randoms())
def test_the_order_given_makes_no_difference(
    found: list[tuple[MemoryItem, float]], chance: random.Random
) -> None:
    mixed = list(found)
    chance.shuffle(mixed)
    assert rank(mixed) == rank(found)
    assert rank(mixed, None)[:5] == rank(found)


@given(FOUND)
def test_anyone_can_compute_the_score_again(found: list[tuple[MemoryItem, float]]) -> None:
    for one in rank(found, None):
        assert one.final_score == final_score(one.similarity, one.confidence, one.scope)
        assert (one.confidence, one.scope) == (one.item.confidence, one.item.scope)


@pytest.mark.parametrize("similarity", [float("nan"), float("inf")])
def test_a_similarity_that_is_no_number_is_refused(similarity: float) -> None:
    with pytest.raises(ValueError, match="similarity of m1"):
        rank([(item(), similarity)])


def test_fewer_than_none_is_refused() -> None:
    with pytest.raises(ValueError, match="top_k"):
        rank([], -1)


@given(st.lists(ITEMS, max_size=12), st.integers(0, 8), st.integers(0, 3_000))
def test_the_block_keeps_within_its_limits(memories: list[MemoryItem], most: int, characters: int) -> None:
    shown = format_memories_for_prompt(memories, most, characters)
    assert len(shown.text) <= characters
    assert len(shown.ids) <= most
    assert list(shown.ids) == [each.id for each in memories[: len(shown.ids)]]
    assert (shown.text == "") == (shown.ids == ())


@given(
    st.lists(
        st.text() | st.sampled_from([CLOSING, "</memories", "＜/memories＞", "\n- [x] "]),
        min_size=1,
        max_size=5,
    )
)
def test_no_text_ends_the_block_or_starts_a_line(texts: list[str]) -> None:
    shown = format_memories_for_prompt([item(f"m{at}", text) for at, text in enumerate(texts)])
    assert shown.text.startswith(OPENING)
    assert shown.text.endswith(CLOSING)
    body = shown.text[len(OPENING) : -len(CLOSING)]
    assert "<" not in body
    assert all(line.startswith("- [m") for line in body.splitlines())
    assert len(body.splitlines()) == len(shown.ids)


def test_a_memory_stands_with_its_id_type_and_date() -> None:
    assert "- [m1, fact, 2026-05-01] The user plays chess\n" in format_memories_for_prompt([item()]).text


@pytest.mark.parametrize(
    ("status", "trust"), [("archived", "trusted"), ("superseded", "trusted"), ("active", "quarantined")]
)
def test_what_is_quarantined_or_not_active_is_left_out(status: Status, trust: Trust) -> None:
    shown = format_memories_for_prompt([item("bad", status=status, trust=trust), item("good")])
    assert shown.ids == ("good",)


def test_what_does_not_fit_is_cut_off_and_the_rest_left_out() -> None:
    shown = format_memories_for_prompt([item("m1", "a" * 500), item("m2", "b " * 250), item("m3")], 5, 900)
    assert shown.ids == ("m1", "m2")
    assert "b…\n" in shown.text


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=20), st.integers(0, 10))
def test_no_older_memory_comes_without_or_before_the_newer_ones_that_it_is_linked_with(
    pairs: list[tuple[int, int]], count: int
) -> None:
    items = [replace(item(f"m{at}"), created_at=NOW + timedelta(days=at * 7 % 10)) for at in range(10)]
    linked: dict[str, list[MemoryItem]] = {}
    for one, other in {pair for pair in pairs if pair[0] != pair[1]}:
        for a, b in ((one, other), (other, one)):
            if items[b] not in linked.setdefault(items[a].id, []):
                linked[items[a].id].append(items[b])
    for others in linked.values():
        others.sort(key=said_last, reverse=True)
    found = rank([(each, at / 10) for at, each in enumerate(items)], count)
    ordered = newest_first(found, linked)
    names = [each.item.id for each in ordered]
    assert len(names) == len(set(names)) <= max(count, 4)
    for place, each in enumerate(ordered):
        newer = [other for other in linked.get(each.item.id, ()) if said_last(other) > said_last(each.item)]
        assert {other.id for other in newer[:3]} <= set(names[:place])
    if not linked:
        assert ordered == found


def test_a_line_says_between_which_days_a_memory_is_true() -> None:
    lasting = replace(item("m1"), valid_from=NOW)
    ending = replace(item("m2"), valid_until=NOW + timedelta(days=31))
    lines = format_memories_for_prompt([lasting, ending]).text.splitlines()[2:4]
    assert lines == [
        "- [m1, fact, 2026-05-01, true from 2026-05-01] The user plays chess",
        "- [m2, fact, 2026-05-01, until 2026-06-01] The user plays chess",
    ]
