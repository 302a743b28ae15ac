"""Which turns of a conversation come before and after another, by slot, and what their words add."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from zeus_runtime.memory.retrieval.growing import grown
from zeus_runtime.memory.turns import ConversationTurn, turn_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

BEFORE: Final = (0.5, 0.25)
"""The shares of the scores of the turn before and of the one before that which count for a turn: an answer has few of
the question's words. Chosen with ``benchmarks.memory_quality --fit``."""
AFTER: Final = 0.2
"""The share of the score of the turn after it."""


class Turns:
    """The turns among the items of a place, by slot."""

    def __init__(self) -> None:
        self._slots: dict[ConversationTurn, int] = {}
        # One more than the slot of the turn before and after; 0 where there is none.
        self._before: NDArray[np.int64] = np.zeros(0, np.int64)
        self._after: NDArray[np.int64] = np.zeros(0, np.int64)
        self._taken = 0

    def add(self, source_ids: Sequence[str | None]) -> None:
        """The next slots; an item that is there already has the new one from now on."""
        start, self._taken = self._taken, self._taken + len(source_ids)
        if self._taken > len(self._before):
            room = self._taken * 3 // 2 + 64 if start else self._taken
            self._before, self._after = grown(self._before, start, room), grown(self._after, start, room)
        for slot, source_id in enumerate(source_ids, start):
            turn = turn_of(source_id)
            if turn is not None:
                self._link(slot, turn)

    def _link(self, slot: int, turn: ConversationTurn) -> None:
        self._slots[turn] = slot
        before = self._slots.get(turn._replace(number=turn.number - 1))
        after = self._slots.get(turn._replace(number=turn.number + 1))
        if before is not None:
            self._before[slot], self._after[before] = before + 1, slot + 1
        if after is not None:
            self._after[slot], self._before[after] = after + 1, slot + 1

    def in_context(self, scores: NDArray[np.float64], visible: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Scores by slot, with the shares of those of the turns around, as far as they are visible."""
        if not self._slots:
            return scores
        one_off = np.zeros(self._taken + 1)
        one_off[1:] = np.where(visible, scores, 0)
        before = self._before[: self._taken]
        earlier = np.zeros(self._taken + 1, np.int64)
        earlier[1:] = before
        found = scores + BEFORE[0] * one_off[before] + BEFORE[1] * one_off[earlier[before]]
        found += AFTER * one_off[self._after[: self._taken]]
        return found
