"""Memories that are turns of a conversation: which one comes before and after another, and what their words add."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from zeus_runtime.memory.retrieval.growing import grown

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zeus_runtime.memory.items import MemoryItem

_TURN = re.compile(r"(.+)#(\d{1,9})", re.DOTALL)
BEFORE: Final = (0.5, 0.25)
"""The shares of the scores of the turn before and of the one before that which count for a turn: an answer has few of
the question's words. Chosen with ``benchmarks.memory_quality --fit``."""
AFTER: Final = 0.2
"""The share of the score of the turn after it."""


class Turn(NamedTuple):
    """The place of a memory in a conversation."""

    conversation: str
    number: int

    @property
    def source_id(self) -> str:
        return f"{self.conversation}#{self.number}"


def turn_of(source_id: str | None) -> Turn | None:
    """The turn that a ``source_id`` names: ``CONVERSATION#NUMBER``; None for any other."""
    found = None if source_id is None else _TURN.fullmatch(source_id)
    return None if found is None else Turn(found[1], int(found[2]))


def before(source_id: str | None) -> str | None:
    """The ``source_id`` of the turn before the one that ``source_id`` names; None where it names none."""
    turn = turn_of(source_id)
    return None if turn is None else turn._replace(number=turn.number - 1).source_id


def after(source_id: str | None) -> str | None:
    """The ``source_id`` of the turn after the one that ``source_id`` names; None where it names none."""
    turn = turn_of(source_id)
    return None if turn is None else turn._replace(number=turn.number + 1).source_id


def in_context(item: MemoryItem, previous: MemoryItem | None) -> str:
    """The text by which an item is embedded: a turn together with the one before it, which it may answer.

    Args:
        previous: the turn before, if it is there. Its text counts only if it is shown to the same persons.
    """
    if previous is None or not previous.is_searchable:
        return item.content
    shown = (previous.visibility, previous.created_by) == (item.visibility, item.created_by)
    return f"{previous.content}\n{item.content}" if shown else item.content


class Turns:
    """The turns among the items of a place, by slot."""

    def __init__(self) -> None:
        self._slots: dict[Turn, int] = {}
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

    def _link(self, slot: int, turn: Turn) -> None:
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
