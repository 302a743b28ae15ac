"""What a caller may see of the vectors that are kept in memory; one rule for every store that keeps some."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zeus_runtime.plugin.memory import Reach
    from zeus_runtime.plugin.vector_store import VectorQuery


class Numbers:
    """Words as small numbers, each the same for as long as the store is open."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def of(self, word: str) -> int:
        """The number of ``word``, which it keeps from now on."""
        return self._numbers.setdefault(word, len(self._numbers))

    def of_all(self, words: Sequence[str]) -> list[int]:
        """The number of each of many words, of which few are different."""
        known = {word: self.of(word) for word in set(words)}
        return list(map(known.__getitem__, words))


def covered(
    figures: Sequence[NDArray[np.integer]], part: Reach, query: VectorQuery, numbers: Numbers
) -> NDArray[np.bool_]:
    """Which vectors the grants of ``part`` and the type that ``query`` asks for cover.

    Args:
        figures: the numbers of each vector's memory type, visibility and creator.
    """
    types, visibilities, owners = figures
    allowed = np.zeros(len(types), np.bool_)
    for grant in part.grants:
        granted = [numbers.of(each) for each in grant.visibilities]
        known = np.zeros(len(numbers), np.bool_)
        known[granted] = True
        fits = known[visibilities]
        if grant.own:
            fits &= owners == numbers.of(query.user_id)
        allowed |= fits
    if query.memory_type is not None:
        allowed &= types == numbers.of(query.memory_type)
    return allowed
