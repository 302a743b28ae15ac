"""The best memories for a query where the vectors are in the process: bounds for all of them, exact for few.

For every item there is an upper bound of its cosine, thus of its final score. The items with the greatest bounds are
compared whole; the ``top_k``-th best score among them is a threshold, and whoever's bound is below it cannot be in the
answer. What is left is compared whole too, so the result is what ranking everything would give.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

import numpy as np

from zeus_runtime.memory.retrieval.lexical import Part
from zeus_runtime.memory.retrieval.ranking import CONFIDENCE_WEIGHT, SCOPE_WEIGHT, SIMILARITY_WEIGHT
from zeus_runtime.memory.retrieval.search import Found, Measure, kth
from zeus_runtime.memory.retrieval.shelf import Shelf
from zeus_runtime.memory.vectors import AtHand

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]
    Slots = NDArray[np.intp]

_FIRST: Final = 64
"""So many are compared whole before there is a threshold, then four times as many at once, and so on."""


class Links:
    """Which vector belongs to which item, for the shelves that were asked for."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[Shelf, _Link] = WeakKeyDictionary()

    def of(self, shelf: Shelf, vectors: AtHand) -> Slots:
        """For each slot of ``shelf`` the slot of its vector; -1 where there is none."""
        link = self._known.get(shelf)
        if link is None or not link.fits(shelf, vectors):
            link = self._known[shelf] = _Link(shelf, vectors)
        return link.follow(shelf, vectors)


class _Link:
    """Slots are never used again, so only what is new on either side has to be looked up."""

    def __init__(self, shelf: Shelf, vectors: AtHand) -> None:
        self._reading, self._kept = shelf.reading, vectors.kept
        self._to: Slots = np.zeros(0, np.intp)
        self._vectors = 0

    def fits(self, shelf: Shelf, vectors: AtHand) -> bool:
        return self._reading is shelf.reading and self._kept is vectors.kept

    def follow(self, shelf: Shelf, vectors: AtHand) -> Slots:
        start = len(self._to)
        if start < len(shelf):
            self._to = np.concatenate([self._to, vectors.slots(shelf.ids(start))])
        new = vectors.ids(self._vectors)
        if start:
            for place, item_id in enumerate(new, self._vectors):
                slot = shelf.slot(item_id)
                if slot is not None:
                    self._to[slot] = place
        self._vectors += len(new)
        return self._to


def best_at_hand(
    parts: Sequence[Part], vectors: Sequence[AtHand], links: Links, measure: Measure, top_k: int | None
) -> list[Found]:
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
    least, block = -np.inf, _FIRST
    compared = np.zeros(0, np.intp)
    while True:
        rest = np.flatnonzero(possible >= least if least > -np.inf else possible > least)
        if not len(rest):
            break
        if top_k is not None and len(rest) > block:
            rest = rest[np.argpartition(-possible[rest], block)[:block]]
        possible[rest] = -np.inf
        for each in there:
            here = rest[(rest >= each.start) & (rest < each.end)]
            similarities[here], scores[here] = each.compared(here, measure)
        compared = np.concatenate([compared, rest])
        least, block = kth(scores[compared], top_k), block * 4
    best = compared[(scores[compared] >= least) & (scores[compared] > -np.inf)]
    return [
        Found(each.id(slot), float(similarities[slot]))
        for each in there
        for slot in best.tolist()
        if each.start <= slot < each.end
    ]


class _Bounded:
    """A part with the most that each of its items could score; its slots begin at ``start``."""

    def __init__(self, start: int, part: Part, vectors: AtHand, to: Slots, measure: Measure) -> None:
        self.start, self.end = start, start + len(part.shelf)
        self._part, self._vectors, self._to = part, vectors, to
        self._base = CONFIDENCE_WEIGHT * part.confidence
        self._base += SCOPE_WEIGHT * part.priority
        similarity = measure(np.append(vectors.at_most(), -np.inf)[to], part.lexical)
        out = similarity < measure.floor
        out |= ~part.visible
        similarity *= SIMILARITY_WEIGHT
        similarity += self._base
        similarity[out] = -np.inf
        self.possible = similarity

    def id(self, slot: int) -> str:
        return self._part.shelf.id(slot - self.start)

    def compared(self, slots: Slots, measure: Measure) -> tuple[Numbers, Numbers]:
        """Their similarities and scores, which are -inf below the floor."""
        own = slots - self.start
        to = self._to[own]
        cosines = np.full(len(own), -np.inf)
        cosines[to >= 0] = self._vectors.cosines(to[to >= 0])
        similarity = measure(cosines, self._part.lexical[own])
        scores = similarity * SIMILARITY_WEIGHT + self._base[own]
        return similarity, np.where(similarity >= measure.floor, scores, -np.inf)
