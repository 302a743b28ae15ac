"""What words add to the scores of a shelf's items, by BM25."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from zeus_runtime.memory.retrieval.fusion import K1, B

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zeus_runtime.memory.retrieval.shelf import Entries

_DENSE: Final = 3
"""A word that more than one text in so many has is kept by slot: to add up whole arrays takes a tenth for each."""


class Lengths:
    """What the lengths of a shelf's texts make of BM25, of which so many words are the mean."""

    def __init__(self, words: NDArray[np.float64], mean: float) -> None:
        self.words, self.mean = words, mean
        self._whole: NDArray[np.float64] | None = None
        self._once = words
        self._dense: dict[str, NDArray[np.float64]] = {}

    def add(
        self, scores: NDArray[np.float64], word: str, entries: Entries, weight: float, *, whole: bool
    ) -> None:
        """Add to ``scores``, by slot, what a word of this weight adds.

        Args:
            whole: whether it pays to compute the lengths' part for all slots, once, and not for those of each word.
        """
        if not len(entries):
            return
        if len(entries) * _DENSE < len(scores):
            scores[entries.slots] += self._shares(entries, weight, whole=whole)
            return
        dense = self._dense.get(word)
        if dense is None:
            dense = self._dense[word] = np.zeros(len(scores))
            dense[entries.slots] = self._shares(entries, 1.0, whole=True)
        scores += dense * weight

    def _shares(self, entries: Entries, weight: float, *, whole: bool) -> NDArray[np.float64]:
        if whole and self._whole is None:
            self._whole = self._long(self.words)
            self._once = 1.0 + self._whole
        slots = entries.slots
        if self._whole is None:
            long = self._long(self.words[slots])
        elif entries.once:
            return np.asarray(weight / self._once[slots])
        else:
            long = self._whole[slots]
        return np.asarray(weight * entries.counts / (entries.counts + long))

    def _long(self, words: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(K1 * (1 - B + B * words / self.mean) if self.mean else np.full(len(words), K1))
