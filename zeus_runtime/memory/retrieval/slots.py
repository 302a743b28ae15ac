"""Which of a place's items has which slot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from zeus_runtime.memory.retrieval.growing import grown

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Slots:
    """A slot for each item, in order of arrival. A slot is never used again: a changed item gets a new one."""

    def __init__(self) -> None:
        self._ids: list[str] = []
        self._by_id: dict[str, int] = {}
        self._by_key: dict[int, str] = {}
        self._keys: NDArray[np.int64] = np.zeros(0, np.int64)
        self._ascending = True

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def gone(self) -> int:
        """How many are of items that are there no more, or have another one."""
        return len(self._ids) - len(self._by_id)

    def id(self, slot: int) -> str:
        """The item of a slot."""
        return self._ids[slot]

    def ids(self, start: int) -> Sequence[str]:
        """The items of the slots from ``start`` on."""
        return self._ids[start:]

    def now(self, item_id: str) -> int | None:
        """Where an item stands now."""
        return self._by_id.get(item_id)

    def key(self, slot: int) -> int:
        """The key of a slot's item."""
        return int(self._keys[slot])

    def add(self, keys: Sequence[int] | NDArray[np.int64], ids: Sequence[str]) -> None:
        """Give these items the next slots; each by its key, which ascend, and its id."""
        start, end = len(self._ids), len(self._ids) + len(ids)
        self._make_room(end)
        self._keys[start:end] = keys
        # A changed item comes back with its old key at a new slot; from then on a binary search would miss it.
        self._ascending = self._ascending and (not start or bool(self._keys[start - 1] < self._keys[start]))
        self._ids.extend(ids)
        self._by_id.update(zip(ids, range(start, end), strict=True))
        self._by_key.update(zip(self._keys[start:end].tolist(), ids, strict=True))

    def add_one(self, key: int, item_id: str) -> None:
        """As ``add`` does, in less time."""
        slot = len(self._ids)
        self._make_room(slot + 1)
        self._keys[slot] = key
        self._ascending = self._ascending and (not slot or bool(self._keys[slot - 1] < key))
        self._ids.append(item_id)
        self._by_id[item_id] = slot
        self._by_key[key] = item_id

    def take_away(self, key: int) -> int | None:
        """Leave the item of a key out from now on; where it stood."""
        item_id = self._by_key.pop(key, None)
        return None if item_id is None else self._by_id.pop(item_id)

    def of(self, keys: NDArray[np.int64], first: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The slot of each key, and whether it has one among the ``first`` so many."""
        if not self._ascending:
            slots = np.array(
                [self._by_id.get(self._by_key.get(key, ""), first) for key in keys.tolist()], np.int64
            )
            return slots, slots < first
        # While keys ascend none came back, so an index that knew the `first` slots names no later one.
        taken = len(self._ids)
        own = self._keys[:taken]
        slots = np.minimum(np.searchsorted(own, keys), max(0, taken - 1))
        return slots, own[slots] == keys if taken else np.zeros(len(keys), np.bool_)

    def _make_room(self, end: int) -> None:
        if end > len(self._keys):
            taken = len(self._ids)
            self._keys = grown(self._keys, taken, max(end, taken * 3 // 2 + 64) if taken else end)
