"""The best memories for a query, exactly, without asking for every vector.

The vectors come from the nearest on; the words' scores, confidences and scopes of all items are at hand. After each
block of vectors it is known how near an unseen item can be at most, so an upper bound of its final score is known too;
those that could still win are asked for, and when none could, the result is what ranking everything would give.
"""

from __future__ import annotations

import bisect
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import numpy as np

from zeus_runtime.memory.fusion import Fusion
from zeus_runtime.memory.lexical import Part
from zeus_runtime.memory.ranking import CONFIDENCE_WEIGHT, SCOPE_WEIGHT, SIMILARITY_WEIGHT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

_FIRST_BLOCK: Final = 64
_ASKED_AT_ONCE: Final = 256
_ROUNDING: Final = 1e-9
"""Final scores this near are decided by ``ranking.rank``, not here."""


class Vectors(Protocol):
    """The vectors of the query's reach, as a ``VectorStore`` gives them."""

    def nearest(self) -> Iterator[tuple[str, float]]: ...

    def cosines(self, ids: Collection[str]) -> Mapping[str, float]: ...


class Measure(Protocol):
    """How a cosine and a lexical score become one similarity. It grows with both."""

    def __call__(self, cosines: Numbers, lexical: Numbers) -> Numbers:
        """Element by element; a cosine that is not there is NaN."""
        ...

    @property
    def floor(self) -> float: ...


@dataclass(frozen=True)
class Fused:
    """``Fusion`` for many at once."""

    fusion: Fusion

    def __call__(self, cosines: Numbers, lexical: Numbers) -> Numbers:
        fusion = self.fusion
        share = (cosines - fusion.cosine_zero) / (fusion.cosine_one - fusion.cosine_zero)
        dense = np.nan_to_num(np.clip(share, 0, 1)) * fusion.dense_trust
        return np.asarray(1 - (1 - dense) * (1 - lexical * fusion.lexical_trust))

    @property
    def floor(self) -> float:
        return max(self.fusion.floor, _LEAST)


_LEAST: Final = float(np.nextafter(0, 1))


@dataclass(frozen=True)
class BareCosine:
    """The cosine and nothing else; what has no vector is not found."""

    def __call__(self, cosines: Numbers, lexical: Numbers) -> Numbers:
        return np.where(np.isnan(cosines), -np.inf, cosines)

    @property
    def floor(self) -> float:
        return -1.5


class Found(NamedTuple):
    """An item and how similar it is."""

    id: str
    similarity: float


def best(parts: Sequence[Part], vectors: Vectors | None, measure: Measure, top_k: int | None) -> list[Found]:
    """All that could be among the ``top_k`` best of ``parts``; a few more than that, in no order.

    Args:
        vectors: None where the query has no vector.
        top_k: None for everything above the floor.
    """
    everything = _Everything(parts)
    if not len(everything) or top_k == 0:
        return []
    cosines = np.full(len(everything), np.nan)
    unknown = np.zeros(len(everything), np.bool_)
    if vectors is None:
        return everything.chosen(cosines, unknown, measure, top_k)
    unknown |= everything.visible
    stream = vectors.nearest()
    block = _FIRST_BLOCK
    while True:
        read = list(islice(stream, block))
        everything.note(dict(read), cosines, unknown)
        if len(read) < block:
            unknown[:] = False  # what was not given has no vector
            return everything.chosen(cosines, unknown, measure, top_k)
        open_ = everything.open(cosines, unknown, read[-1][1], measure, top_k)
        if len(open_):
            asked = open_[:_ASKED_AT_ONCE]
            everything.note(vectors.cosines(everything.ids(asked)), cosines, unknown)
            unknown[asked] = False
        if len(open_) <= _ASKED_AT_ONCE and not len(
            everything.open(cosines, unknown, read[-1][1], measure, top_k)
        ):
            return everything.chosen(cosines, unknown, measure, top_k)
        block *= 4


class _Everything:
    """The slots of all parts in one row."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts
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
        return [self._id(int(slot)) for slot in slots]

    def _id(self, slot: int) -> str:
        number = bisect.bisect_right(self._starts, slot) - 1
        return self._parts[number].shelf.id(slot - self._starts[number])

    def note(self, found: Mapping[str, float], cosines: Numbers, unknown: NDArray[np.bool_]) -> None:
        for item_id, cosine in found.items():
            for start, part in zip(self._starts, self._parts, strict=False):
                slot = part.shelf.slot(item_id)
                if slot is not None:
                    cosines[start + slot] = cosine
                    unknown[start + slot] = False
                    break

    def open(
        self,
        cosines: Numbers,
        unknown: NDArray[np.bool_],
        at_most: float,
        measure: Measure,
        top_k: int | None,
    ) -> NDArray[np.int64]:
        """The slots that could still be among the best, the most promising 256 first."""
        slots = np.flatnonzero(unknown)
        similarity = measure(np.full(len(slots), at_most), self.lexical[slots])
        scores = similarity * SIMILARITY_WEIGHT + self._base[slots]
        worth = (similarity >= measure.floor) & (scores >= self._least(cosines, unknown, measure, top_k))
        slots, scores = slots[worth], scores[worth]
        if len(slots) <= _ASKED_AT_ONCE:
            return slots
        first = np.argpartition(-scores, _ASKED_AT_ONCE)
        return np.asarray(slots[first])

    def chosen(
        self, cosines: Numbers, unknown: NDArray[np.bool_], measure: Measure, top_k: int | None
    ) -> list[Found]:
        slots, similarity, scores = self._scored(cosines, unknown, measure)
        kept = scores >= _kth(scores, top_k)
        return [
            Found(self._id(int(slot)), float(share))
            for slot, share in zip(slots[kept], similarity[kept], strict=True)
        ]

    def _least(
        self, cosines: Numbers, unknown: NDArray[np.bool_], measure: Measure, top_k: int | None
    ) -> float:
        return _kth(self._scored(cosines, unknown, measure)[2], top_k)

    def _scored(
        self, cosines: Numbers, unknown: NDArray[np.bool_], measure: Measure
    ) -> tuple[NDArray[np.int64], Numbers, Numbers]:
        slots = np.flatnonzero(self.visible & ~unknown)
        similarity = measure(cosines[slots], self.lexical[slots])
        relevant = similarity >= measure.floor
        slots, similarity = slots[relevant], similarity[relevant]
        return slots, similarity, similarity * SIMILARITY_WEIGHT + self._base[slots]


def _kth(scores: Numbers, top_k: int | None) -> float:
    """The ``top_k``-th best score, a little less for rounding; -inf if there are not so many."""
    if top_k is None or len(scores) < top_k:
        return -np.inf
    return float(np.partition(scores, len(scores) - top_k)[len(scores) - top_k]) - _ROUNDING


