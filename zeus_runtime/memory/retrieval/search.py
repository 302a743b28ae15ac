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

from zeus_runtime.memory.retrieval.fusion import Fusion
from zeus_runtime.memory.retrieval.lexical import Part
from zeus_runtime.memory.retrieval.ranking import CONFIDENCE_WEIGHT, SCOPE_WEIGHT, SIMILARITY_WEIGHT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

_FIRST_BLOCK: Final = 64
_ASKED_AT_ONCE: Final = 256
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

    def __call__(self, cosines: Numbers, lexical: Numbers) -> Numbers:
        """Element by element; a cosine that is not there is NaN."""
        ...

    def needed(self, similarity: Numbers, lexical: Numbers) -> Numbers:
        """The least cosine for so much similarity: -inf where none is needed, inf where none would do."""
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

    def needed(self, similarity: Numbers, lexical: Numbers) -> Numbers:
        fusion = self.fusion
        rest = np.maximum(1 - lexical * fusion.lexical_trust, _LEAST)
        share = (1 - (1 - similarity) / rest) / max(fusion.dense_trust, _LEAST)
        cosine = fusion.cosine_zero + share * (fusion.cosine_one - fusion.cosine_zero)
        cosine[share <= _ROUNDING] = -np.inf
        cosine[share > 1 + _ROUNDING] = np.inf
        return np.asarray(cosine)

    @property
    def floor(self) -> float:
        return max(self.fusion.floor, _LEAST)


_LEAST: Final = 1e-300


@dataclass(frozen=True)
class BareCosine:
    """The cosine and nothing else; what has no vector is not found."""

    def __call__(self, cosines: Numbers, lexical: Numbers) -> Numbers:
        return np.where(np.isnan(cosines), -np.inf, cosines)

    def needed(self, similarity: Numbers, lexical: Numbers) -> Numbers:
        return similarity

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
    stream: Iterator[tuple[str, float]] | None = None
    at_least, at_most, block = -1.0, 1.0, _FIRST_BLOCK
    while True:
        open_, beyond = everything.open(cosines, unknown, at_most, measure, top_k)
        everything.note(vectors.cosines(everything.ids(open_)) if len(open_) else {}, cosines, unknown)
        unknown[open_] = False
        if np.isinf(beyond) and beyond > 0:
            return everything.chosen(cosines, unknown, measure, top_k)
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
    ) -> tuple[NDArray[np.int64], float]:
        """The slots that need the least to be among the best, if they may have it, and what all others need."""
        slots = np.flatnonzero(unknown)
        least = _kth(self._scored(cosines, unknown, measure)[2], top_k)
        similarity = np.maximum((least - self._base[slots]) / SIMILARITY_WEIGHT, measure.floor)
        needed = measure.needed(similarity, self.lexical[slots])
        worth = np.flatnonzero(needed <= at_most + _NARROW)
        if len(worth) <= _ASKED_AT_ONCE:
            return slots[worth], np.inf
        order = np.argpartition(needed[worth], _ASKED_AT_ONCE)
        return slots[worth[order[:_ASKED_AT_ONCE]]], float(needed[worth[order[_ASKED_AT_ONCE]]])

    def chosen(
        self, cosines: Numbers, unknown: NDArray[np.bool_], measure: Measure, top_k: int | None
    ) -> list[Found]:
        slots, similarity, scores = self._scored(cosines, unknown, measure)
        kept = scores >= _kth(scores, top_k)
        return [
            Found(self._id(int(slot)), float(share))
            for slot, share in zip(slots[kept], similarity[kept], strict=True)
        ]

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
