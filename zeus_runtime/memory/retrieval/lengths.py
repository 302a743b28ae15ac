"""What words add to the scores of a shelf's items, by BM25."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from zeus_runtime.memory.retrieval.fusion import K1, B

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zeus_runtime.memory.retrieval.entries import Entries

_DENSE: Final = 3
"""A word that more than one text in so many has is kept by slot: to add up whole arrays takes a tenth for each."""
_MANY: Final = 8_192
"""Of fewer texts no word is kept by slot: all words are added up at once."""


class Lengths:
    """What the lengths of a shelf's texts make of BM25, of which so many words are the mean."""

    def __init__(self, words: NDArray[np.float64], mean: float) -> None:
        self.words, self.mean = words, mean
        self._whole: NDArray[np.float64] | None = None
        self._dense: dict[str, NDArray[np.float64]] = {}

    def scores(
        self, words: Sequence[str], entries: Sequence[Entries], weights: Sequence[float]
    ) -> NDArray[np.float64]:
        """The sum of what each word adds, by slot.

        Args:
            entries, weights: of each word.
        """
        total = len(self.words)
        dense = [total >= _MANY and len(each) * _DENSE >= total for each in entries]
        sparse = [
            (each, weight)
            for each, weight, is_dense in zip(entries, weights, dense, strict=True)
            if len(each) and not is_dense
        ]
        scores = self._summed([each for each, _ in sparse], [weight for _, weight in sparse])
        for word, each, weight, is_dense in zip(words, entries, weights, dense, strict=True):
            if is_dense:
                scores += weight * self._by_slot(word, each)
        return scores

    def _by_slot(self, word: str, entries: Entries) -> NDArray[np.float64]:
        known = self._dense.get(word)
        if known is None:
            known = self._dense[word] = self._summed([entries], [1.0])
        return known

    def _summed(self, entries: Sequence[Entries], weights: Sequence[float]) -> NDArray[np.float64]:
        if not entries:
            return np.zeros(len(self.words))
        slots = np.concatenate([each.slots for each in entries])
        weight = np.repeat([weight * (K1 + 1) for weight in weights], [len(each) for each in entries])
        # More occurrences than texts: computing the length of each text once takes less, and is kept for the next
        # query.
        if self._whole is None and len(slots) > len(self.words):
            self._whole = self._long(self.words)
        long = self._long(self.words[slots]) if self._whole is None else self._whole[slots]
        # Without a repeated word the counts are all 1 and need not be read.
        if all(each.once for each in entries):
            shares = weight / (1.0 + long)
        else:
            counts = np.concatenate([each.counts for each in entries])
            shares = weight * counts / (counts + long)
        return np.bincount(slots, shares, len(self.words)).astype(np.float64, copy=False)

    def _long(self, words: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(K1 * (1 - B + B * words / self.mean) if self.mean else np.full(len(words), K1))
