"""The positions of words in a place's items: read from the index on demand, and cached while there is room."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from zeus_runtime.memory.retrieval.growing import grown
from zeus_runtime.memory.retrieval.words import (
    FoundWords,
    counted,
    indexed_words,
    where_all_words,
    where_words,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from sqlalchemy import Connection

    from zeus_runtime.memory.retrieval.slots import Slots
    from zeus_runtime.store.word_entries import Way

_WORDS_KEPT: Final = 4_096
# Of 16 bytes each, so 128 MB for a place.
_ENTRIES_KEPT: Final = 8_000_000


class Entries:
    """The items of a place that have a word: slots of the cache, and how often the word occurs."""

    def __init__(self, slots: NDArray[np.int64], counts: NDArray[np.float64], *, once: bool) -> None:
        self._slots = slots
        self._counts = counts
        self._taken = len(slots)
        self.once = once or bool((counts == 1).all())

    def __len__(self) -> int:
        return self._taken

    @property
    def slots(self) -> NDArray[np.int64]:
        return self._slots[: self._taken]

    @property
    def counts(self) -> NDArray[np.float64]:
        return self._counts[: self._taken]

    def add(self, slot: int, often: int) -> None:
        """One more slot, which is not there yet."""
        if self._taken == len(self._slots):
            room = self._taken * 3 // 2 + 16
            self._slots = grown(self._slots, self._taken, room)
            self._counts = grown(self._counts, self._taken, room)
        self._slots[self._taken] = slot
        self._counts[self._taken] = often
        self._taken += 1
        self.once = self.once and often == 1


_NONE: Final = Entries(np.zeros(0, np.int64), np.zeros(0, np.float64), once=True)


class WordEntries:
    """The entries of those words of a place that were asked for.

    Args:
        place: its key; None where there is none, and no word stands anywhere.
        slots: of its items.
        way: how the index is asked.
    """

    def __init__(self, place: int | None, slots: Slots, way: Way) -> None:
        self._place = place
        self._slots = slots
        self._way = way
        self._entries: OrderedDict[str, Entries] = OrderedDict()
        self._kept = 0
        self._unread: dict[str, str] | None = None
        self._unread_of = 0

    def read_all(self, connection: Connection) -> None:
        """Read the words of all slots, which pays for a small place; each word is counted on demand."""
        assert self._place is not None
        self._unread, self._unread_of = where_all_words(connection, self._place), len(self._slots)

    def add(self, first: int, contents: Iterable[str]) -> None:
        """Note the words of the slots from ``first`` on."""
        new = [Counter(indexed_words(content)) for content in contents]
        if self._unread is not None:
            # Before the new slots are added, as `_unread` knows nothing of them.
            self._read_now({word for words in new for word in words} - self._entries.keys())
        for slot, words in enumerate(new, first):
            for word, often in words.items():
                known = self._entries.get(word)
                if known is not None:
                    self._kept += 1
                    known.add(slot, often)

    def of(self, connection: Connection, words: Sequence[str]) -> list[Entries]:
        """Of each word the slots that have it; some may be of items that are gone."""
        unknown = [word for word in words if word not in self._entries]
        if unknown and self._place is not None:
            self._read(connection, self._place, unknown)
        known = [self._entries.get(word, _NONE) for word in words]
        for word in words:
            if word in self._entries:
                self._entries.move_to_end(word)
        # After the answer was collected: one of its own words may be dropped.
        while len(self._entries) > _WORDS_KEPT or (self._kept > _ENTRIES_KEPT and len(self._entries) > 1):
            self._kept -= len(self._entries.popitem(last=False)[1])
            # `_unread` gave these words away and would say that no item has them; from now on the index is read.
            self._unread = None
        return known

    def _read(self, connection: Connection, place: int, words: Sequence[str]) -> None:
        """A small place has them in memory; otherwise, or after words were dropped, the index is read."""
        if self._unread is not None:
            self._read_now(words)
            return
        self._take_in(words, where_words(connection, place, words, self._way), len(self._slots))

    def _read_now(self, words: Collection[str]) -> None:
        """What is unread speaks of the items as they were: those that changed since have got their entries."""
        assert self._unread is not None
        docs = [self._unread.pop(word, "") for word in words]
        self._take_in(words, counted(docs), self._unread_of)

    def _take_in(self, words: Iterable[str], found: FoundWords, of: int) -> None:
        """Keep the entries of an index that knew the first ``of`` slots."""
        slots, known = self._slots.of(found.keys, of)
        counts, ends = found.counts, found.ends
        if not known.all():
            slots, counts = slots[known], counts[known]
            ends = [int(np.count_nonzero(known[:end])) for end in ends]
        start = 0
        for word, end in zip(words, ends, strict=True):
            self._entries[word] = Entries(slots[start:end], counts[start:end], once=found.once)
            start = end
        self._kept += start
