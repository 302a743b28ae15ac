"""Keeps the vectors of one place and one model in memory, and finds the nearest ones to a query exactly."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Final

import numpy as np

from zeus_plugins.vector_stores.sqlite.heads import HEAD, ROUNDING, Heads, directions
from zeus_plugins.vector_stores.sqlite.products import greatest, grown, nearest_first, product
from zeus_runtime.plugin.vector_store import AtHand

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zeus_runtime.plugin.vector_store import VectorQuery

    Vectors = NDArray[np.float32]

_LEAST: Final = 2_048
"""Fewer vectors are compared as a whole, because heads would not save time."""
_FIRST: Final = 16
"""The size of the first block; each further block is four times as large."""
_MOST_BOUNDS: Final = 1_024
_MASKS_KEPT: Final = 16
_DEAR: Final = 4
"""If the bounds leave more than one in this many vectors, all vectors are compared."""
_SKIPPED: Final = 16
"""If the bounds were not useful, this many queries do not use them."""


class PlaceVectors:
    """Vectors of length 1, one slot each; slots are never reused.

    Each vector has a head along the 64 directions in which the vectors differ most. The bound from the heads is never
    below the cosine. So most vectors are excluded with a quarter of the arithmetic or less, and the result is exact.
    """

    def __init__(self, dimension: int) -> None:
        self._dimension = dimension
        self._ids: list[str] = []
        self._slots: dict[str, int] = {}
        self._vectors: Vectors = np.zeros((0, dimension), np.float32)
        self._there: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self._figures: list[NDArray[np.int32]] = [np.zeros(0, np.int32) for _ in range(3)]
        self._first: Heads | None = None
        self._second: Heads | None = None
        self._skip = 0
        self._masks: dict[object, NDArray[np.bool_]] = {}

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def size(self) -> int:
        """Bytes."""
        return self._vectors.nbytes + sum(each.nbytes for each in (self._first, self._second) if each)

    @property
    def there(self) -> NDArray[np.bool_]:
        """Return for each slot whether its vector is still there."""
        return self._there[: len(self)]

    @property
    def figures(self) -> list[NDArray[np.int32]]:
        """Return the three numbers of each vector, as three arrays by slot."""
        return [column[: len(self)] for column in self._figures]

    @property
    def is_worn(self) -> bool:
        """Whether so many vectors were removed that reading all again is better."""
        # Slots are never reused, so memory and arithmetic for removed vectors grow until then.
        return len(self) - len(self._slots) > len(self._slots) // 2 + 1_000

    def add(self, ids: Sequence[str], vectors: Vectors, figures: Sequence[Sequence[int]]) -> None:
        """Add items; an item with a known id replaces the old one.

        Args:
            vectors: shape (items, dimension), each of length 1.
            figures: three numbers per item, as three lists.
        """
        start, end = len(self), len(self) + len(ids)
        if end > len(self._vectors):
            # By a half, so that adding one by one copies each vector a constant number of times; less room at the
            # first, large read.
            self._grow(max(end, len(self._vectors) * 3 // 2 + 64) if start else end + end // 8 + 64)
        if not self._slots.keys().isdisjoint(ids) or len(set(ids)) < len(ids):
            # One by one: an id that is twice in `ids` must leave its first slot empty.
            for item_id, slot in zip(ids, range(start, end), strict=True):
                self.take_away(item_id)
                self._slots[item_id] = slot
        else:
            self._slots.update(zip(ids, range(start, end), strict=True))
        self._ids.extend(ids)
        self._vectors[start:end] = vectors
        self._there[start:end] = True
        for column, values in zip(self._figures, figures, strict=True):
            column[start:end] = values

    def make_room(self, count: int) -> None:
        """Allocate at once the room that adding this many items would need."""
        if len(self) + count > len(self._vectors):
            self._grow(len(self) + count + count // 8 + 64)

    def _grow(self, room: int) -> None:
        taken = len(self)
        self._vectors = grown(self._vectors, taken, room)
        self._there = grown(self._there, taken, room)
        self._figures = [grown(column, taken, room) for column in self._figures]
        if self._first is not None:
            self._first.make_room(room)

    def take_away(self, item_id: str) -> None:
        """Remove an item."""
        slot = self._slots.pop(item_id, None)
        if slot is not None:
            self._there[slot] = False
            for mask in self._masks.values():
                # A slice, because a mask may end before this slot: it is extended when it is used next.
                mask[slot : slot + 1] = False

    def visible(self, key: object, covered: Callable[[int], NDArray[np.bool_]]) -> NDArray[np.bool_]:
        """Return for each slot whether it is there and covered; the result is cached under ``key``.

        Args:
            covered: returns for each slot from the given one on whether it is covered.
        """
        # Masks grow with the slots: only new slots are judged, and `take_away` corrects the old ones.
        known = self._masks.get(key)
        start = 0 if known is None else len(known)
        if known is None or start < len(self):
            new = covered(start) & self.there[start:]
            known = new if known is None else np.concatenate([known, new])
            while len(self._masks) >= _MASKS_KEPT:
                del self._masks[next(iter(self._masks))]
            self._masks[key] = known
        return known

    def ids(self, start: int) -> Sequence[str]:
        """Return the items in the slots from ``start`` on."""
        return self._ids[start:]

    def slots(self, ids: Sequence[str]) -> NDArray[np.intp]:
        """Return the items' slots; -1 for items that are not here."""
        return np.fromiter(map(self._slots.get, ids, repeat(-1)), np.intp, len(ids))

    def at_most(self, query: Vectors) -> Vectors:
        """Return for each slot an upper bound of the cosine, rounding included."""
        if len(self) >= _LEAST and self._dimension >= 2 * HEAD:
            return self._bounds(query)
        return np.asarray(product(self._vectors[: len(self)], query) + np.float32(ROUNDING))

    def closer(self, slots: NDArray[np.intp], bounds: Vectors, query: Vectors) -> Vectors:
        """Return a closer upper bound for these slots, with twice as many coordinates as ``bounds``."""
        first = self._first
        if first is None or self._dimension < 3 * HEAD or len(slots) > len(self) // _DEAR:
            return bounds
        vectors = self._vectors[: len(self)]
        # Before the second heads, which are computed from the first ones' rests.
        first.complete(vectors)
        if self._second is None:
            self._second = Heads(directions(vectors, first.directions), first)
        second = self._second
        second.complete(vectors)
        head, more = product(first.directions, query), product(second.directions, query)
        square = float(head @ head)
        rest = float(np.sqrt(max(0.0, 1.0 - square))) + ROUNDING
        left = float(np.sqrt(max(0.0, 1.0 - square - float(more @ more)))) + ROUNDING
        inner = bounds - first.rests[slots] * np.float32(rest) + product(second.heads[slots], more)
        return np.asarray(np.minimum(bounds, inner + second.rests[slots] * np.float32(left)))

    def compared(self, slots: NDArray[np.intp], query: Vectors) -> Vectors:
        """Return the cosines of these slots."""
        if len(slots) > len(self) // _DEAR:
            return np.asarray(product(self._vectors[: len(self)], query)[slots])
        return product(self._vectors[slots], query)

    def cosines(self, ids: Sequence[str], query: Vectors, visible: NDArray[np.bool_]) -> dict[str, float]:
        """Return the cosines of those items that are here and ``visible``."""
        if not len(self):
            return {}
        slots = np.array([self._slots.get(each, -1) for each in ids], np.intp)
        # -1 reads the last slot's visibility, and the first condition excludes it.
        here = np.flatnonzero((slots >= 0) & visible[slots])
        exact = product(self._vectors[slots[here]], query)
        return dict(zip([ids[place] for place in here.tolist()], exact.tolist(), strict=True))

    def nearest(
        self, query: Vectors, visible: NDArray[np.bool_], at_least: float = -1.0
    ) -> Iterator[tuple[str, float]]:
        """Yield the visible items by cosine, greatest first; items below ``at_least`` may be left out."""
        everything = int(np.count_nonzero(visible))
        given: list[int] = []
        self._skip = max(0, self._skip - 1)
        if everything >= _LEAST and self._dimension >= 2 * HEAD and not self._skip:
            if (yield from self._by_bounds(query, visible, everything, at_least, given)):
                return
            self._skip = _SKIPPED
        yield from self._in_order(query, visible, everything, given)

    def _in_order(
        self, query: Vectors, visible: NDArray[np.bool_], everything: int, before: Sequence[int]
    ) -> Iterator[tuple[str, float]]:
        """Yield all items except those already given, by comparing all of them."""
        if everything > len(self) // 4:
            cosines = np.where(visible, product(self._vectors[: len(self)], query), -np.inf)
        else:
            slots = np.flatnonzero(visible)
            cosines = np.full(len(self), -np.inf, np.float32)
            cosines[slots] = product(self._vectors[slots], query)
        cosines[list(before)] = -np.inf
        given, everything = 0, everything - len(before)
        block = 256
        while given < everything:
            slots = greatest(cosines, min(block, everything))
            for slot in slots[given:]:
                yield self._ids[slot], float(cosines[slot])
            given, block = len(slots), block * 8

    def _by_bounds(
        self, query: Vectors, visible: NDArray[np.bool_], everything: int, at_least: float, given: list[int]
    ) -> Generator[tuple[str, float], None, bool]:
        """Yield the nearest items as long as only few vectors need a full comparison.

        Args:
            given: receives the slots of the items.

        Returns:
            whether all items were yielded.
        """
        bounds = np.where(visible, self._bounds(query), -np.inf)
        slots = greatest(bounds, _MOST_BOUNDS)
        cosines = np.full(0, 0, np.float32)
        known = np.zeros(0, np.intp)
        block = _FIRST
        # Invariant: every vector that is not in `known` has a cosine of at most its bound; `known` includes
        # slots[:block].
        while block <= _MOST_BOUNDS:
            # The greatest bounds come first, so at least this many cosines are as great as the block's last one.
            first = slots[:block]
            first = first[bounds[first] > -np.inf]
            known, cosines = self._compared(query, first, bounds, known, cosines)
            least = max(at_least, float(np.partition(cosines, -block)[-block]))
            # All that may still reach `least`: after they are compared, the order above it is final.
            rest = np.flatnonzero(bounds >= least - ROUNDING)
            # Vectors without a main direction, such as random ones: the bounds exclude too few.
            if len(known) + len(rest) > everything // _DEAR:
                return False
            known, cosines = self._compared(query, rest, bounds, known, cosines)
            order = nearest_first(cosines, known)
            sure = int(np.count_nonzero(cosines >= least))
            for place in order[len(given) : sure]:
                given.append(int(known[place]))
                yield self._ids[given[-1]], float(cosines[place])
            if least <= at_least:
                return True
            block *= 4
        return False

    def _compared(
        self,
        query: Vectors,
        slots: NDArray[np.intp],
        bounds: Vectors,
        known: NDArray[np.intp],
        cosines: Vectors,
    ) -> tuple[NDArray[np.intp], Vectors]:
        """Return ``known`` with their cosines, extended by ``slots``, which need no bound any more."""
        # So that no slot is compared twice.
        bounds[slots] = -np.inf
        return np.concatenate([known, slots]), np.concatenate([cosines, product(self._vectors[slots], query)])

    def _bounds(self, query: Vectors) -> Vectors:
        vectors = self._vectors[: len(self)]
        if self._first is None:
            self._first = Heads(directions(vectors))
            self._first.make_room(len(self._vectors))
        self._first.complete(vectors)
        return self._first.at_most(query)


class KeptVectors(AtHand):
    """The vectors of a place that a query may find, asked for by slots."""

    def __init__(self, place_vectors: PlaceVectors, visible: NDArray[np.bool_], query: VectorQuery) -> None:
        self.kept = place_vectors
        self._place_vectors, self._visible, self._vector = place_vectors, visible, query.vector
        self._bounds = np.zeros(0, np.float32)

    def ids(self, start: int) -> Sequence[str]:
        return self._place_vectors.ids(start)

    def slots(self, ids: Sequence[str]) -> NDArray[np.intp]:
        return self._place_vectors.slots(ids)

    def at_most(self) -> NDArray[np.float32]:
        self._bounds = self._place_vectors.at_most(self._vector)
        # In place: `at_most` of the place made this array for this query.
        self._bounds[~self._visible] = -np.inf
        return self._bounds

    def at_most_of(self, slots: NDArray[np.intp]) -> NDArray[np.float32]:
        return self._place_vectors.closer(slots, self._bounds[slots], self._vector)

    def cosines(self, slots: NDArray[np.intp]) -> NDArray[np.float32]:
        cosines = self._place_vectors.compared(slots, self._vector)
        return np.where(self._visible[slots], cosines, np.float32(-np.inf))
