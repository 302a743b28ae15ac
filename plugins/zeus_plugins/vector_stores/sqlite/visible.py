"""Selects the vectors in memory that a caller may see; all stores that keep vectors in memory share this rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zeus_runtime.plugin.memory import Reach
    from zeus_runtime.plugin.vector_store import VectorQuery


class Numbers:
    """Maps words to small numbers, which stay the same while the store is open."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def of(self, word: str) -> int:
        """Return the number of ``word``; a new word gets the next number."""
        return self._numbers.setdefault(word, len(self._numbers))

    def of_all(self, words: Sequence[str]) -> list[int]:
        """Return the number of each word; fast for many words of which few are different."""
        known = {word: self.of(word) for word in set(words)}
        return list(map(known.__getitem__, words))


def covered(
    figures: Sequence[NDArray[np.integer]], part: Reach, query: VectorQuery, numbers: Numbers
) -> NDArray[np.bool_]:
    """Return for each vector whether the grants of ``part`` and the memory type of ``query`` include it.

    Args:
        figures: the numbers of each vector's memory type, visibility and creator.
    """
    types, visibilities, owners = figures
    allowed = np.zeros(len(types), np.bool_)
    for grant in part.grants:
        granted = [numbers.of(each) for each in grant.visibilities]
        # After the grants have their numbers, which may be new ones; the array is indexed by every number that a
        # vector has.
        known = np.zeros(len(numbers), np.bool_)
        known[granted] = True
        fits = known[visibilities]
        if grant.own:
            fits &= owners == numbers.of(query.user_id)
        allowed |= fits
    if query.memory_type is not None:
        allowed &= types == numbers.of(query.memory_type)
    return allowed
