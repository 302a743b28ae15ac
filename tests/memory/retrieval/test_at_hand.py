"""With the vectors in the process, few are compared whole, and the answer is what ranking everything gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeus_runtime.memory.retrieval.cache import PlaceCache
from zeus_runtime.memory.retrieval.fusion import Fusion
from zeus_runtime.memory.retrieval.in_memory_search import Links, _highest, best_at_hand
from zeus_runtime.memory.retrieval.lexical import ShelfMatches
from zeus_runtime.memory.retrieval.search import BareCosine, Fused, Measure
from zeus_runtime.memory.vectors import AtHand


def test_the_highest_are_found_where_all_bounds_are_the_same() -> None:
    below = np.nextafter(np.float32(0.25), np.float32(0))
    for bound in (below, np.float32(0.25), np.float32(0.1), np.float32(1.0)):
        assert len(_highest(np.full(8_960, bound, np.float32), 64)) >= 64


class Items:
    """What a part needs of a shelf."""

    def __init__(self, names: Sequence[str], confidence: Sequence[float]) -> None:
        self.reading: object = self
        self.names = list(names)
        self._confidence = np.array(confidence)

    def __len__(self) -> int:
        return len(self.names)

    def ids(self, start: int) -> Sequence[str]:
        return self.names[start:]

    def id(self, slot: int) -> str:
        return self.names[slot]

    def slot(self, item_id: str) -> int | None:
        last = [slot for slot, name in enumerate(self.names) if name == item_id]
        return last[-1] if last else None

    def figure(self, _: str) -> Any:
        return self._confidence


class Cosines(AtHand):
    """Cosines by item with bounds that are too high by ``slack``; counts what is compared whole."""

    def __init__(self, of: dict[str, float], slack: float = 0.0) -> None:
        self.kept = self
        self.names = list(of)
        self.values = np.array(list(of.values()), np.float32)
        self._slack = np.float32(slack)
        self.compared = 0

    def ids(self, start: int) -> Sequence[str]:
        return self.names[start:]

    def slots(self, ids: Sequence[str]) -> Any:
        places = {name: place for place, name in enumerate(self.names)}
        return np.array([places.get(each, -1) for each in ids], np.intp)

    def at_most(self) -> Any:
        return self.values + self._slack

    def at_most_of(self, slots: Any) -> Any:
        return self.values[slots] + self._slack / 8

    def cosines(self, slots: Any) -> Any:
        self.compared += len(slots)
        return self.values[slots]


class One:
    """One item of a made-up place."""

    def __init__(self, cosine: float | None, lexical: float, confidence: float, visible: bool) -> None:
        self.cosine, self.lexical, self.confidence, self.visible = cosine, lexical, confidence, visible


share = st.integers(0, 20).map(lambda each: each / 20)
ones = st.builds(
    One, st.none() | st.integers(-20, 20).map(lambda each: each / 20), share, share, st.booleans()
)
measures: Any = st.sampled_from([Fused(Fusion()), Fused(Fusion(lexical_trust=0.3, floor=0.0)), BareCosine()])


def part_of(name: str, items: Sequence[One], priority: float) -> tuple[ShelfMatches, Cosines]:
    names = [f"{name}{number}" for number in range(len(items))]
    shelf = Items(names, [each.confidence for each in items])
    visible = np.array([each.visible for each in items], np.bool_)
    lexical = np.array([each.lexical for each in items])
    cosines = {
        name: each.cosine
        for name, each in reversed(list(zip(names, items, strict=True)))
        if each.cosine is not None
    }
    return ShelfMatches(cast(PlaceCache, shelf), visible, lexical, priority), Cosines(cosines)


def scores_by_hand(parts: Sequence[tuple[ShelfMatches, Cosines]], measure: Measure) -> dict[str, float]:
    found = {}
    for part, vectors in parts:
        known = dict(zip(vectors.names, vectors.values.tolist(), strict=True))
        for slot, name in enumerate(cast(Items, part.shelf).names):
            (similarity,) = measure(np.array([known.get(name, -np.inf)]), part.lexical[[slot]])
            if part.visible[slot] and similarity >= measure.floor:
                found[name] = 0.5 * similarity + 0.3 * part.confidence[slot] + 0.2 * part.priority
    return found


@given(
    st.lists(ones, max_size=40), st.lists(ones, max_size=6), measures, st.none() | st.integers(0, 12), share
)
def test_the_answer_is_what_ranking_everything_gives(
    user: list[One], session: list[One], measure: Measure, top_k: int | None, slack: float
) -> None:
    made = [part_of("u", user, 0.6), part_of("s", session, 1.0)]
    for _, vectors in made:
        vectors._slack = np.float32(slack)
    found = best_at_hand([part for part, _ in made], [each for _, each in made], Links(), measure, top_k)
    true = scores_by_hand(made, measure)
    best = sorted(true.values(), reverse=True)[:top_k]
    assert sorted((true[each.id] for each in found), reverse=True)[: len(best)] == best
    for each in found:
        (similarity,) = [
            measure(
                np.array([dict(zip(v.names, v.values.tolist(), strict=True)).get(each.id, -np.inf)]),
                p.lexical[[slot]],
            )[0]
            for p, v in made
            if (slot := p.shelf.slot(each.id)) is not None
        ]
        assert each.similarity == pytest.approx(similarity)


def test_of_many_only_those_are_compared_whose_bound_reaches_the_answer() -> None:
    choose = np.random.default_rng(3)
    items = [One(float(cosine), 0.0, 0.7, visible=True) for cosine in choose.uniform(-0.2, 0.5, 20_000)]
    items[77] = One(0.9, 0.0, 0.7, visible=True)
    part, vectors = part_of("u", items, 0.6)
    vectors._slack = np.float32(0.01)
    found = best_at_hand([part], [vectors], Links(), Fused(Fusion()), 1)
    assert [each.id for each in found] == ["u77"]
    assert vectors.compared < 200


def test_what_the_bounds_leave_gets_a_closer_bound_before_it_is_compared() -> None:
    choose = np.random.default_rng(4)
    items = [One(float(cosine), 0.0, 0.7, visible=True) for cosine in choose.uniform(0.2, 0.5, 20_000)]
    part, vectors = part_of("u", items, 0.6)
    vectors._slack = np.float32(0.3)
    (found,) = best_at_hand([part], [vectors], Links(), Fused(Fusion()), 1)
    assert found.id == f"u{max(range(20_000), key=lambda number: items[number].cosine or 0)}"
    assert vectors.compared < 4_000


def test_vectors_and_items_that_come_later_find_each_other() -> None:
    links, shelf, vectors = Links(), Items(["a", "b"], [1, 1]), Cosines({"b": 0.5})
    place = cast(PlaceCache, shelf)
    assert links.of(place, vectors).tolist() == [-1, 0]
    vectors.names += ["a", "c"]
    assert links.of(place, vectors).tolist() == [1, 0]
    shelf.names += ["c", "d"]
    assert links.of(place, vectors).tolist() == [1, 0, 2, -1]
    vectors.names += ["b"]
    shelf.names += ["a"]
    assert links.of(place, vectors).tolist() == [1, 3, 2, -1, 1]
    again = Items(["c"], [1])
    assert links.of(cast(PlaceCache, again), vectors).tolist() == [2]
    other = Cosines({"c": 0.1, "a": 0.2})
    assert links.of(place, other).tolist() == [1, -1, 0, -1, 1]
    shelf.reading, shelf.names = object(), ["c"]
    assert links.of(place, other).tolist() == [0]
