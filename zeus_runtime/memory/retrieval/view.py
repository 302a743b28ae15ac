"""The items of a place that a caller may see."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zeus_runtime.memory.retrieval.growing import grown

if TYPE_CHECKING:
    from numpy.typing import NDArray


class VisibleSlots:
    """The slots that a caller may see, with the figures that BM25 needs of all of them."""

    def __init__(self) -> None:
        self._slots = np.zeros(0, np.bool_)
        self._taken = 0
        self.texts = 0
        self.words = 0.0

    @property
    def slots(self) -> NDArray[np.bool_]:
        """Whether, by slot."""
        return self._slots[: self._taken]

    def add(self, visible: NDArray[np.bool_], words: NDArray[np.float64]) -> None:
        end = self._taken + len(visible)
        if end > len(self._slots):
            self._slots = grown(self._slots, self._taken, end * 3 // 2 + 64 if self._taken else end)
        self._slots[self._taken : end] = visible
        self._taken = end
        self.texts += int(np.count_nonzero(visible))
        self.words += float(words[visible].sum())

    def add_one(self, visible: bool, words: int) -> None:
        if self._taken == len(self._slots):
            self._slots = grown(self._slots, self._taken, self._taken * 3 // 2 + 64)
        self._slots[self._taken] = visible
        self._taken += 1
        if visible:
            self.texts += 1
            self.words += words

    def seen(self, slots: NDArray[np.int64]) -> int:
        """How many of ``slots`` are among these."""
        # The common case: a user sees all of their own place.
        return len(slots) if self.texts == self._taken else int(np.count_nonzero(self.slots[slots]))

    def take_away(self, slot: int, words: float) -> None:
        if self._slots[slot]:
            self._slots[slot] = False
            self.texts -= 1
            self.words -= float(words)
