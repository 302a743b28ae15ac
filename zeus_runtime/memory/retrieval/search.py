"""The best memories for a query, exactly, without asking for every vector.

The vectors come from the nearest on; the words' scores, confidences and scopes of all items are in memory. After each
block of vectors, the greatest possible cosine of an unseen item is known, and so an upper bound of its final score.
Items that could still win are read; when none could, the result equals a ranking of everything.
"""

from __future__ import annotations

import bisect
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import numpy as np

from zeus_runtime.memory.retrieval.fusion import Fusion
from zeus_runtime.memory.retrieval.lexical import ShelfMatches
from zeus_runtime.memory.retrieval.ranking import CONFIDENCE_WEIGHT, SCOPE_WEIGHT, SIMILARITY_WEIGHT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

_FIRST_BLOCK: Final = 64
_ASKED_AT_ONCE: Final = 256
_ROUNDS: Final = 2
"""So often those that need least are asked for before the nearest are: the more is known, the fewer may win."""
_NARROW: Final = 1e-5
"""Of cosines, which are float32."""
_ROUNDING: Final = 1e-9
"""Final scores this near are decided by ``ranking.rank``, not here."""


class Vectors(Protocol):
    """The vectors of the query's reach, as a ``VectorStore`` gives them."""

    def nearest(self, at_least: float) -> Iterator[tuple[str, float]]: ...

    def cosines(self, ids: Collection[str]) -> Mapping[str, float]: ...


class Measure(Protocol):
    """How a cosine and a lexical score become one similarity. It grows with both."""

    def __call__(self, cosines: NDArray[np.floating], lexical: Numbers) -> Numbers:
        """Element by element; a cosine that is not there is -inf."""
        ...

    def needed(self, similarity: Numbers, lexical: Numbers) -> Numbers:
        """The least cosine for so much similarity: -inf where none is needed, inf where none would do."""
        ...

    @property
    def floor(self) -> float:
        """An item with less similarity is not found."""
        ...

    @property
    def surely(self) -> float:
        """Where no item has so much similarity, nothing is found."""
        ...


@dataclass(frozen=True)
class Fused:
    """``Fusion`` for many at once."""

    fusion: Fusion

    def __call__(self, cosines: NDArray[np.floating], lexical: Numbers) -> Numbers:
        fusion = self.fusion
        # In place: for so many numbers, new memory for each step takes longer than the arithmetic.
        nats = cosines - fusion.cosine_zero
        np.maximum(nats, 0, out=nats)
        nats *= -fusion.dense_weight / (fusion.cosine_one - fusion.cosine_zero)
        nats -= lexical * fusion.lexical_weight
        np.expm1(nats, out=nats)
        np.negative(nats, out=nats)
        return np.asarray(nats)

    def needed(self, similarity: Numbers, lexical: Numbers) -> Numbers:
        fusion = self.fusion
        nats = -np.log1p(-np.minimum(similarity, _MOST)) - lexical * fusion.lexical_weight
        share = nats / max(fusion.dense_weight, _LEAST)
        cosine = fusion.cosine_zero + share * (fusion.cosine_one - fusion.cosine_zero)
        # Words alone suffice; an item without a vector must pass too.
        cosine[share <= _ROUNDING] = -np.inf
        return np.asarray(cosine)

    @property
    def floor(self) -> float:
        return max(self.fusion.floor, _LEAST)

    @property
    def surely(self) -> float:
        return self.fusion.surely


_LEAST: Final = 1e-300
_MOST: Final = 1 - 1e-12
"""Of a similarity, which never is 1."""


@dataclass(frozen=True)
class BareCosine:
    """The cosine alone; an item without a vector is not found."""

    def __call__(self, cosines: NDArray[np.floating], lexical: Numbers) -> Numbers:
        return cosines.astype(np.float64)

    def needed(self, similarity: Numbers, lexical: Numbers) -> Numbers:
        return similarity

    @property
    def floor(self) -> float:
        return -1.5

    @property
    def surely(self) -> float:
        return -1.5


class SimilarItem(NamedTuple):
    """An item and how similar it is."""

    id: str
    similarity: float


def best(
    parts: Sequence[ShelfMatches], vectors: Vectors | None, measure: Measure, top_k: int | None
) -> list[SimilarItem]:
    """All that could be among the ``top_k`` best of ``parts``; a few more than that, in no order.

    Args:
        vectors: None where the query has no vector.
        top_k: None for everything above the floor.
    """
    everything = _Everything(parts)
    if not len(everything) or top_k == 0:
        return []
    cosines = np.full(len(everything), -np.inf)
    unknown = np.zeros(len(everything), np.bool_)
    if vectors is None:
        return everything.chosen(cosines, unknown, measure, top_k)
    unknown |= everything.visible
    hopeful = everything.hopeful(measure, top_k)
    stream: Iterator[tuple[str, float]] | None = None
    at_most, block, rounds = 1.0, _FIRST_BLOCK, 0
    # Invariant: no memory whose cosine is unknown has more than `at_most`; a round reads cosines or ends the search.
    while True:
        # Those that were read meanwhile need not be asked for again; the others never become more.
        hopeful = hopeful[unknown[hopeful]]
        open_, hopeful, beyond = everything.open(
            hopeful,
            cosines,
            unknown,
            at_most,
            measure,
            top_k,
            most=_FIRST_BLOCK if not rounds else _ASKED_AT_ONCE,
        )
        if len(open_):
            ids = everything.ids(open_)
            found = vectors.cosines(ids)
            cosines[open_] = [found.get(each, -np.inf) for each in ids]
            unknown[open_] = False
        # All that may still win was read: nothing is left beyond it.
        if np.isinf(beyond) and beyond > 0:
            return everything.chosen(cosines, unknown, measure, top_k)
        rounds += 1
        if rounds < _ROUNDS:
            continue
        if stream is None:
            # What is still unknown needs at least this, and more once the best are known.
            at_least = max(-1.0, beyond - _NARROW)
            stream = vectors.nearest(at_least)
        read = list(islice(stream, block))
        everything.note(dict(read), cosines, unknown)
        if len(read) < block:
            if at_least <= -1:
                unknown[:] = False  # what was not given has no vector
            return everything.chosen(cosines, unknown, measure, top_k)
        at_most, block = read[-1][1], block * 4


class _Everything:
    """The slots of all parts in one row."""

    def __init__(self, parts: Sequence[ShelfMatches]) -> None:
        self._parts = parts
        self._surely = -np.inf
        self._starts = [0]
        for part in parts:
            self._starts.append(self._starts[-1] + len(part.shelf))
        empty = np.zeros(0)
        self.visible = np.concatenate([np.zeros(0, np.bool_), *(part.visible for part in parts)])
        self.lexical = np.concatenate([empty, *(part.lexical for part in parts)])
        self._base = np.concatenate(
            [empty, *(CONFIDENCE_WEIGHT * part.confidence + SCOPE_WEIGHT * part.priority for part in parts)]
        )

    def __len__(self) -> int:
        return self._starts[-1]

    def ids(self, slots: NDArray[np.int64]) -> list[str]:
        if len(self._parts) == 1:
            return list(map(self._parts[0].shelf.id, slots.tolist()))
        return [self._id(slot) for slot in slots.tolist()]

    def _id(self, slot: int) -> str:
        number = bisect.bisect_right(self._starts, slot) - 1
        return self._parts[number].shelf.id(slot - self._starts[number])

    def note(self, found: Mapping[str, float], cosines: Numbers, unknown: NDArray[np.bool_]) -> None:
        left = list(found)
        for start, part in zip(self._starts, self._parts, strict=False):
            slots = [part.shelf.slot(each) for each in left]
            here = [
                (start + slot, found[each])
                for slot, each in zip(slots, left, strict=True)
                if slot is not None
            ]
            if here:
                places, values = zip(*here, strict=True)
                cosines[list(places)] = values
                unknown[list(places)] = False
            left = [each for slot, each in zip(slots, left, strict=True) if slot is None]

    def hopeful(self, measure: Measure, top_k: int | None) -> NDArray[np.int64]:
        """The slots that could be among the best: what the words alone give others, a cosine can only add to."""
        slots = np.flatnonzero(self.visible)
        lexical = self.lexical[slots]
        surely = measure(np.full(len(slots), -np.inf), lexical)
        sure = surely >= measure.floor
        base = self._base[slots]
        self._surely = kth(surely[sure] * SIMILARITY_WEIGHT + base[sure], top_k)
        needed = measure.needed(self._similarity(base, self._surely, measure), lexical)
        return slots[needed <= 1.0 + _NARROW]

    def _similarity(self, base: Numbers, least: float, measure: Measure) -> Numbers:
        return np.maximum((least - base) / SIMILARITY_WEIGHT, measure.floor)

    def open(
        self,
        slots: NDArray[np.int64],
        cosines: Numbers,
        unknown: NDArray[np.bool_],
        at_most: float,
        measure: Measure,
        top_k: int | None,
        *,
        most: int,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], float]:
        """Those of ``slots`` that need the least to be among the best; all that may; and what all others need."""
        least = max(self._surely, kth(self._scored(cosines, unknown, measure)[2], top_k))
        needed = measure.needed(self._similarity(self._base[slots], least, measure), self.lexical[slots])
        worth = needed <= at_most + _NARROW
        slots, needed = slots[worth], needed[worth]
        if len(slots) <= most:
            return slots, slots, np.inf
        order = np.argpartition(needed, most)
        # The one behind the first `most` needs the least of all others.
        return slots[order[:most]], slots, float(needed[order[most]])

    def chosen(
        self, cosines: Numbers, unknown: NDArray[np.bool_], measure: Measure, top_k: int | None
    ) -> list[SimilarItem]:
        slots, similarity, scores = self._scored(cosines, unknown, measure)
        kept = scores >= kth(scores, top_k)
        return [
            SimilarItem(item_id, share)
            for item_id, share in zip(self.ids(slots[kept]), similarity[kept].tolist(), strict=True)
        ]

    def _scored(
        self, cosines: Numbers, unknown: NDArray[np.bool_], measure: Measure
    ) -> tuple[NDArray[np.int64], Numbers, Numbers]:
        slots = np.flatnonzero(self.visible & ~unknown)
        similarity = measure(cosines[slots], self.lexical[slots])
        relevant = similarity >= measure.floor
        slots, similarity = slots[relevant], similarity[relevant]
        return slots, similarity, similarity * SIMILARITY_WEIGHT + self._base[slots]


def kth(scores: Numbers, top_k: int | None) -> float:
    """The ``top_k``-th best score, a little less for rounding; -inf if there are not so many."""
    if top_k is None or len(scores) < top_k:
        return -np.inf
    return float(np.partition(scores, len(scores) - top_k)[len(scores) - top_k]) - _ROUNDING
