"""The subjects of a place's items as metadata: a word of a query that names one finds its items."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from zeus_runtime.memory.retrieval.growing import grown
from zeus_runtime.memory.retrieval.words import indexed_words

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Subjects:
    """The subject of each item, by slot. They are few, such as the speakers of a conversation."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._named: dict[str, list[int]] = {}
        # 0: no subject.
        self._column: NDArray[np.int32] = np.zeros(0, np.int32)
        self._taken = 0

    def add(self, subjects: Sequence[str | None]) -> None:
        """Those of the next slots."""
        start, self._taken = self._taken, self._taken + len(subjects)
        if self._taken > len(self._column):
            self._column = grown(self._column, start, self._taken * 3 // 2 + 64 if start else self._taken)
        for slot, subject in enumerate(subjects, start):
            if subject:
                self._column[slot] = self._number(subject)

    def _number(self, subject: str) -> int:
        number = self._numbers.get(subject)
        if number is None:
            number = self._numbers[subject] = len(self._numbers) + 1
            for word in set(indexed_words(subject)):
                self._named.setdefault(word, []).append(number)
        return number

    def slots_of(self, forms: Iterable[str]) -> NDArray[np.int64]:
        """The slots of items whose subject has a word, in any of its forms."""
        numbers = [number for form in forms for number in self._named.get(form, ())]
        if not numbers:
            return np.zeros(0, np.int64)
        return np.flatnonzero(np.isin(self._column[: self._taken], numbers))
