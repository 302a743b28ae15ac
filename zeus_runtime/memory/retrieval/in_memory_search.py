"""The best memories for a query where the vectors are in the process: bounds for all of them, exact for few.

For every item there is an upper bound of its cosine, thus of its final score. The items with the greatest bounds are
compared whole; the ``top_k``-th best score among them is a threshold, and an item whose bound is below it cannot be in
the answer. The others get a closer bound; the rest of these is compared whole too. So the result equals a ranking of
everything. Bounds are float32, a little higher than rounding can make them too low; scores are float64.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

import numpy as np

from zeus_runtime.memory.retrieval.cache import PlaceCache
from zeus_runtime.memory.retrieval.lexical import ShelfMatches
from zeus_runtime.memory.retrieval.ranking import CONFIDENCE_WEIGHT, SCOPE_WEIGHT, SIMILARITY_WEIGHT
from zeus_runtime.memory.retrieval.search import Measure, SimilarItem, kth
from zeus_runtime.memory.vectors import AtHand

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bounds = NDArray[np.float32]
    Numbers = NDArray[np.float64]
    Slots = NDArray[np.intp]

_FIRST: Final = 64
"""So many are compared whole before there is a threshold, then four times as many at once, and so on."""
_ROUNDING: Final = np.float32(1e-5)
_ROWS: Final = 64
"""The greatest of many numbers are looked for among the greatest of each so many."""


class Links:
    """Which vector belongs to which item, for the shelves that were asked for."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[PlaceCache, _Link] = WeakKeyDictionary()

    def of(self, shelf: PlaceCache, vectors: AtHand) -> Slots:
        """For each slot of ``shelf`` the slot of its vector; -1 where there is none."""
        link = self._known.get(shelf)
        if link is None or not link.fits(shelf, vectors):
            link = self._known[shelf] = _Link(shelf, vectors)
        return link.follow(shelf, vectors)


class _Link:
    """Slots are never used again, so only what is new on either side has to be looked up."""

    def __init__(self, shelf: PlaceCache, vectors: AtHand) -> None:
        self._reading, self._kept = shelf.reading, vectors.kept
        self._to: Slots = np.zeros(0, np.intp)
        self._vectors = 0

    def fits(self, shelf: PlaceCache, vectors: AtHand) -> bool:
        return self._reading is shelf.reading and self._kept is vectors.kept

    def follow(self, shelf: PlaceCache, vectors: AtHand) -> Slots:
        start = len(self._to)
        if start < len(shelf):
            self._to = np.concatenate([self._to, vectors.slots(shelf.ids(start))])
        new = vectors.ids(self._vectors)
        # The first time, the line above looked up every vector that there is.
        if start:
            for place, item_id in enumerate(new, self._vectors):
                slot = shelf.slot(item_id)
                if slot is not None:
                    self._to[slot] = place
        self._vectors += len(new)
        return self._to


def best_at_hand(
    parts: Sequence[ShelfMatches],
    vectors: Sequence[AtHand],
    links: Links,
    measure: Measure,
    top_k: int | None,
) -> list[SimilarItem]:
    """As ``search.best``: all that could be among the ``top_k`` best of ``parts``, a few more, in no order.

    Args:
        vectors: of each part.
        top_k: None for everything above the floor.
    """
    if top_k == 0:
        return []
    there: list[_Bounded] = []
    for part, own in zip(parts, vectors, strict=True):
        if len(part.shelf):
            start = there[-1].end if there else 0
            there.append(_Bounded(start, part, own, links.of(part.shelf, own), measure))
    if not there:
        return []
    possible = there[0].possible if len(there) == 1 else np.concatenate([each.possible for each in there])
    similarities, scores = np.full(len(possible), -np.inf), np.full(len(possible), -np.inf)
    compared: list[Slots] = []
    best: Slots = np.zeros(0, np.intp)
    next_, block, least = _highest(possible, _FIRST if top_k is not None else len(possible)), _FIRST, -np.inf
    # Invariant: what is not compared yet has its bound in `possible`, what is has -inf there; `least` never falls.
    while len(next_):
        possible[next_] = -np.inf
        for each, here in _parted(there, next_):
            similarities[here], scores[here] = each.compared(here, measure)
        compared.append(next_)
        known = np.concatenate(compared)
        least = kth(scores[known], top_k)
        best = known[(scores[known] >= least) & (scores[known] > -np.inf)]
        rest = _reaching(possible, least)
        # Once only: the closer bounds are written back and serve all further rounds.
        if len(compared) == 1 and len(rest) > _FIRST:
            for each, here in _parted(there, rest):
                possible[here] = each.closer(here, measure)
            rest = rest[_reaching(possible[rest], least)]
        block *= 4
        next_ = rest[_highest(possible[rest], block)]
    return [
        SimilarItem(each.id(slot), float(similarities[slot]))
        for each, here in _parted(there, best)
        for slot in here.tolist()
    ]


def _reaching(possible: Bounds, least: float) -> Slots:
    """The places of all that may score at least so much."""
    return np.flatnonzero(
        possible >= np.float32(least) - _ROUNDING if least > -np.inf else possible > -np.inf
    )


def _parted(there: Sequence[_Bounded], slots: Slots) -> Iterator[tuple[_Bounded, Slots]]:
    for each in there:
        yield each, slots if len(there) == 1 else slots[(slots >= each.start) & (slots < each.end)]


def _highest(possible: Bounds, count: int) -> Slots:
    """The places of the ``count`` greatest of these numbers or about as many more, in no order; none that is -inf."""
    width = len(possible) // _ROWS
    places = (
        np.flatnonzero(possible > -np.inf)
        if width < 2 * count
        else _not_below_columns(possible, width, count)
    )
    if len(places) > 2 * count:
        places = places[np.argpartition(-possible[places], count)[:count]]
    return places


def _not_below_columns(possible: Bounds, width: int, count: int) -> Slots:
    """All that is not below the ``count``-th greatest of the columns' greatest numbers: no fewer than ``count``."""
    # Each column has one number that is as great as its maximum, so `count` columns have at least `count` such
    # numbers.
    columns = possible[: _ROWS * width].reshape(_ROWS, width).max(axis=0)
    least = np.partition(columns, width - count)[width - count]
    return np.flatnonzero((possible >= least) & (possible > -np.inf))


class _Bounded:
    """A part with the most that each of its items could score; its slots begin at ``start``."""

    def __init__(self, start: int, part: ShelfMatches, vectors: AtHand, to: Slots, measure: Measure) -> None:
        self.start, self.end = start, start + len(part.shelf)
        self._part, self._vectors, self._to = part, vectors, to
        bounds = vectors.at_most()
        if not len(bounds):
            # So that the index -1 of an item without a vector exists.
            bounds = np.full(1, -np.inf, np.float32)
        cosines = bounds[to]
        # -1 has read the last vector's bound.
        cosines[to < 0] = -np.inf
        self.possible = self._at_most(cosines, part.lexical, part.confidence, measure)
        self.possible[~part.visible] = -np.inf

    def _at_most(self, cosines: Bounds, lexical: Numbers, confidence: Numbers, measure: Measure) -> Bounds:
        """What items can score at most; -inf of what is below the floor in any case."""
        possible = np.asarray(measure(cosines, lexical.astype(np.float32)), np.float32)
        # Before the weights: the floor is one of similarities.
        out = possible < np.float32(measure.floor) - _ROUNDING
        possible *= np.float32(SIMILARITY_WEIGHT)
        possible += np.float32(CONFIDENCE_WEIGHT) * confidence.astype(np.float32)
        possible += np.float32(SCOPE_WEIGHT * self._part.priority)
        possible[out] = -np.inf
        return possible

    def id(self, slot: int) -> str:
        return self._part.shelf.id(slot - self.start)

    def closer(self, slots: Slots, measure: Measure) -> Bounds:
        """A closer bound than that of ``possible``."""
        own = slots - self.start
        to = self._to[own]
        cosines = np.full(len(own), -np.inf, np.float32)
        cosines[to >= 0] = self._vectors.at_most_of(to[to >= 0])
        return self._at_most(cosines, self._part.lexical[own], self._part.confidence[own], measure)

    def compared(self, slots: Slots, measure: Measure) -> tuple[Numbers, Numbers]:
        """Their similarities and scores, which are -inf below the floor."""
        own = slots - self.start
        to = self._to[own]
        cosines = np.full(len(own), -np.inf)
        cosines[to >= 0] = self._vectors.cosines(to[to >= 0])
        similarity = measure(cosines, self._part.lexical[own])
        scores = similarity * SIMILARITY_WEIGHT
        scores += CONFIDENCE_WEIGHT * self._part.confidence[own] + SCOPE_WEIGHT * self._part.priority
        return similarity, np.where(similarity >= measure.floor, scores, -np.inf)
