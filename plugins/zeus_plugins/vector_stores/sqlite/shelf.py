"""The vectors of one place and one model in memory, and the nearest of them to a query, exactly."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

_T = TypeVar("_T", bound=np.generic)

HEAD: Final = 64
_SAMPLE: Final = 1_024
_LEAST: Final = 2_048
"""Fewer vectors are compared whole: the head would not pay."""
_ROUNDING: Final = 1e-5
_FIRST: Final = 16
"""So many are asked for first, then four times as many, and so on."""
_MOST_BOUNDS: Final = 1_024
_MASKS_KEPT: Final = 16
_DEAR: Final = 4
"""Where the bounds leave more than one vector in so many, all of them are compared."""
_SKIPPED: Final = 16
"""Where the bounds did not do, so many questions go without them."""


class Shelf:
    """Vectors of length 1, one slot each; a slot is never used again.

    Beside each vector stands its head, its coordinates along the 64 directions in which the vectors differ most, and
    the length of the rest. ``head · head' + rest × rest'`` is never below the cosine (Cauchy and Schwarz), so most
    vectors are ruled out by a quarter of the arithmetic or less, and the result is exact.
    """

    def __init__(self, dimension: int) -> None:
        self._dimension = dimension
        self._ids: list[str] = []
        self._slots: dict[str, int] = {}
        self._vectors: Vectors = np.zeros((0, dimension), np.float32)
        self._there: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self._figures: list[NDArray[np.int32]] = [np.zeros(0, np.int32) for _ in range(3)]
        self._directions: Vectors | None = None
        self._heads: Vectors = np.zeros((0, HEAD), np.float32)
        self._rests: Vectors = np.zeros(0, np.float32)
        self._headed = 0
        self._second: _Second | None = None
        self._skip = 0
        self._masks: dict[object, NDArray[np.bool_]] = {}

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def size(self) -> int:
        """Bytes."""
        return self._vectors.nbytes + self._heads.nbytes + (self._second.heads.nbytes if self._second else 0)

    @property
    def there(self) -> NDArray[np.bool_]:
        """By slot: whether it was not taken away."""
        return self._there[: len(self)]

    @property
    def figures(self) -> list[NDArray[np.int32]]:
        """The numbers that the vectors were added with, each by slot."""
        return [column[: len(self)] for column in self._figures]

    @property
    def is_worn(self) -> bool:
        """Whether so many were taken away that it had better be read anew."""
        return len(self) - len(self._slots) > len(self._slots) // 2 + 1_000

    def add(self, ids: Sequence[str], vectors: Vectors, figures: Sequence[Sequence[int]]) -> None:
        """Add items, in place of those of the same id.

        Args:
            vectors: shape (items, dimension), of length 1.
            figures: three numbers of each, as three lists.
        """
        start, end = len(self), len(self) + len(ids)
        if end > len(self._vectors):
            self._grow(max(end, len(self._vectors) * 3 // 2 + 64) if start else end + end // 8 + 64)
        if not self._slots.keys().isdisjoint(ids) or len(set(ids)) < len(ids):
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
        """Do at once what adding so many would do little by little."""
        if len(self) + count > len(self._vectors):
            self._grow(len(self) + count + count // 8 + 64)

    def _grow(self, room: int) -> None:
        taken = len(self)
        self._vectors = _grown(self._vectors, taken, room)
        self._there = _grown(self._there, taken, room)
        self._figures = [_grown(column, taken, room) for column in self._figures]
        if self._directions is not None:
            self._heads = _grown(self._heads, taken, room)
            self._rests = _grown(self._rests, taken, room)

    def take_away(self, item_id: str) -> None:
        """Leave an item out from now on."""
        slot = self._slots.pop(item_id, None)
        if slot is not None:
            self._there[slot] = False
            for mask in self._masks.values():
                mask[slot : slot + 1] = False

    def visible(self, key: object, covered: Callable[[int], NDArray[np.bool_]]) -> NDArray[np.bool_]:
        """What is there of all that ``covered`` says yes to, by slot; kept under ``key``.

        Args:
            covered: whether each slot from the given one on is covered.
        """
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
        """The items of the slots from ``start`` on."""
        return self._ids[start:]

    def slots(self, ids: Sequence[str]) -> NDArray[np.intp]:
        """Where these items are; -1 where they are not here."""
        return np.fromiter(map(self._slots.get, ids, repeat(-1)), np.intp, len(ids))

    def at_most(self, query: Vectors) -> Vectors:
        """By slot, what the cosine cannot exceed, however it is rounded."""
        if len(self) >= _LEAST and self._dimension >= 2 * HEAD:
            return self._bounds(query)
        return np.asarray(_product(self._vectors[: len(self)], query) + np.float32(_ROUNDING))

    def closer(self, slots: NDArray[np.intp], bounds: Vectors, query: Vectors) -> Vectors:
        """Of these slots, whose ``at_most`` is given, what the cosine cannot exceed by twice as many coordinates."""
        if self._directions is None or self._dimension < 3 * HEAD or len(slots) > len(self) // _DEAR:
            return bounds
        if self._second is None:
            self._second = _Second(_directions(self._vectors[: len(self)], self._directions))
        second = self._second
        second.complete(self._vectors[: len(self)], self._rests)
        head, more = _product(self._directions, query), _product(second.directions, query)
        square = float(head @ head)
        rest = float(np.sqrt(max(0.0, 1.0 - square))) + _ROUNDING
        left = float(np.sqrt(max(0.0, 1.0 - square - float(more @ more)))) + _ROUNDING
        inner = bounds - self._rests[slots] * np.float32(rest) + _product(second.heads[slots], more)
        return np.asarray(np.minimum(bounds, inner + second.rests[slots] * np.float32(left)))

    def compared(self, slots: NDArray[np.intp], query: Vectors) -> Vectors:
        """The cosines of these slots."""
        if len(slots) > len(self) // _DEAR:
            return np.asarray(_product(self._vectors[: len(self)], query)[slots])
        return _product(self._vectors[slots], query)

    def cosines(self, ids: Sequence[str], query: Vectors, visible: NDArray[np.bool_]) -> dict[str, float]:
        """Of these items, if they are here and ``visible``."""
        if not len(self):
            return {}
        slots = np.array([self._slots.get(each, -1) for each in ids], np.intp)
        here = np.flatnonzero((slots >= 0) & visible[slots])
        exact = _product(self._vectors[slots[here]], query)
        return dict(zip([ids[place] for place in here.tolist()], exact.tolist(), strict=True))

    def nearest(
        self, query: Vectors, visible: NDArray[np.bool_], at_least: float = -1.0
    ) -> Iterator[tuple[str, float]]:
        """The visible items by cosine, the greatest first; those below ``at_least`` may be left out."""
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
        """All but those that were given before, by comparing them all."""
        if everything > len(self) // 4:
            cosines = np.where(visible, _product(self._vectors[: len(self)], query), -np.inf)
        else:
            slots = np.flatnonzero(visible)
            cosines = np.full(len(self), -np.inf, np.float32)
            cosines[slots] = _product(self._vectors[slots], query)
        cosines[list(before)] = -np.inf
        given, everything = 0, everything - len(before)
        block = 256
        while given < everything:
            slots = _greatest(cosines, min(block, everything))
            for slot in slots[given:]:
                yield self._ids[slot], float(cosines[slot])
            given, block = len(slots), block * 8

    def _by_bounds(
        self, query: Vectors, visible: NDArray[np.bool_], everything: int, at_least: float, given: list[int]
    ) -> Generator[tuple[str, float], None, bool]:
        """The nearest, as far as comparing few vectors whole will do.

        Args:
            given: gets the slots.

        Returns:
            whether that was all.
        """
        bounds = np.where(visible, self._bounds(query), -np.inf)
        slots = _greatest(bounds, _MOST_BOUNDS)
        cosines = np.full(0, 0, np.float32)
        known = np.zeros(0, np.intp)
        block = _FIRST
        while block <= _MOST_BOUNDS:
            # The greatest bounds first: so many cosines at least are as great as the block's last one.
            first = slots[:block]
            first = first[bounds[first] > -np.inf]
            known, cosines = self._compared(query, first, bounds, known, cosines)
            least = max(at_least, float(np.partition(cosines, -block)[-block]))
            rest = np.flatnonzero(bounds >= least - _ROUNDING)
            if len(known) + len(rest) > everything // _DEAR:
                return False
            known, cosines = self._compared(query, rest, bounds, known, cosines)
            order = _nearest_first(cosines, known)
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
        """``known`` and their cosines with those of ``slots``, which need no bound any more."""
        bounds[slots] = -np.inf
        return np.concatenate([known, slots]), np.concatenate(
            [cosines, _product(self._vectors[slots], query)]
        )

    def _bounds(self, query: Vectors) -> Vectors:
        self._complete_heads()
        assert self._directions is not None
        head = _product(self._directions, query)
        rest = float(np.sqrt(max(0.0, 1.0 - float(head @ head))))
        bounds = self._rests[: len(self)] * np.float32(rest + _ROUNDING)
        bounds += _product(self._heads[: len(self)], head)
        bounds += np.float32(_ROUNDING)
        return bounds

    def _complete_heads(self) -> None:
        if self._directions is None:
            self._directions = _directions(self._vectors[: len(self)])
            self._heads = np.zeros((len(self._vectors), HEAD), np.float32)
            self._rests = np.zeros(len(self._vectors), np.float32)
            self._headed = 0
        start, end = self._headed, len(self)
        if start < end:
            new = self._vectors[start:end]
            heads = _products(new, self._directions)
            self._heads[start:end] = heads
            squares = np.einsum("ij,ij->i", heads, heads)
            self._rests[start:end] = np.sqrt(np.maximum(0.0, 1.0 - squares)) + _ROUNDING
            self._headed = end


class _Second:
    """The second heads of a shelf's vectors, and the lengths of what is left then."""

    def __init__(self, directions: Vectors) -> None:
        self.directions = directions
        self.heads: Vectors = np.zeros((0, HEAD), np.float32)
        self.rests: Vectors = np.zeros(0, np.float32)
        self._headed = 0

    def complete(self, vectors: Vectors, first_rests: Vectors) -> None:
        """Bring them up to date with the shelf's vectors and with what the first heads leave."""
        start, end = self._headed, len(vectors)
        if end > len(self.heads):
            room = end + end // 8 + 64
            self.heads, self.rests = _grown(self.heads, start, room), _grown(self.rests, start, room)
        if start < end:
            self.heads[start:end] = _products(vectors[start:end], self.directions)
            squares = np.einsum("ij,ij->i", self.heads[start:end], self.heads[start:end])
            self.rests[start:end] = (
                np.sqrt(np.maximum(0.0, first_rests[start:end] ** 2 - squares)) + _ROUNDING
            )
            self._headed = end


def _grown(array: NDArray[_T], taken: int, room: int) -> NDArray[_T]:
    grown = np.zeros((room, *array.shape[1:]), array.dtype)
    grown[:taken] = array[:taken]
    return grown


_THREADED: Final = 8_192
"""Numbers in a matrix from which on OpenBLAS would start threads, which then wait busily: twice the CPU time."""


def _product(matrix: Vectors, vector: Vectors) -> Vectors:
    """``matrix @ vector`` on one thread."""
    rows, dimension = matrix.shape
    block = max(1, _THREADED // max(1, dimension))
    whole = rows - rows % block
    product = np.empty(rows, np.float32)
    if whole:
        np.matmul(
            matrix[:whole].reshape(-1, block, dimension), vector, out=product[:whole].reshape(-1, block)
        )
    product[whole:] = matrix[whole:] @ vector
    return product


_TOGETHER: Final = 16
"""Rows of a product of two matrices that OpenBLAS does not deal out to threads."""


def _products(matrix: Vectors, directions: Vectors) -> Vectors:
    """``matrix @ directions.T`` on one thread."""
    rows, dimension = matrix.shape
    whole = rows - rows % _TOGETHER
    columns = np.ascontiguousarray(directions.T)
    products = np.empty((rows, len(directions)), np.float32)
    np.matmul(
        matrix[:whole].reshape(-1, _TOGETHER, dimension),
        columns,
        out=products[:whole].reshape(-1, _TOGETHER, len(directions)),
    )
    products[whole:] = matrix[whole:] @ columns
    return products


def _greatest(values: Vectors, count: int) -> NDArray[np.intp]:
    """The places of the ``count`` greatest values and of their equals, the greatest first, of equals the first."""
    least = np.partition(values, len(values) - count)[len(values) - count]
    places = np.flatnonzero(values >= least)
    return places[np.argsort(-values[places], kind="stable")]


def _nearest_first(cosines: Vectors, slots: NDArray[np.intp]) -> NDArray[np.intp]:
    return np.lexsort((slots, -cosines))


def _directions(vectors: Vectors, first: Vectors | None = None) -> Vectors:
    """64 orthonormal directions, shape (64, dimension), that hold most of what a sample of the vectors is made of.

    Subspace iteration; how good they are decides about the time that is saved, never about the result.

    Args:
        first: directions to which all shall be orthogonal.
    """
    step = max(1, len(vectors) // _SAMPLE)
    sample = vectors[::step][:_SAMPLE]
    sample = sample[: len(sample) - len(sample) % _TOGETHER]
    blocks = sample.reshape(-1, _TOGETHER, sample.shape[1])
    found = np.random.default_rng(0).standard_normal((HEAD, sample.shape[1])).astype(np.float32)
    for _ in range(_ROUNDS):
        shares = _products(sample, found).reshape(-1, _TOGETHER, HEAD)
        found = _orthonormal(np.matmul(shares.transpose(0, 2, 1), blocks).sum(axis=0), first)
    return found


_ROUNDS: Final = 4


def _orthonormal(rows: Vectors, first: Vectors | None) -> Vectors:
    """Orthonormal rows that span what ``rows`` span beside those of ``first``, and any where that is less.

    Gram and Schmidt, each row twice: LAPACK's decomposition of so small a matrix starts threads that wait busily, and
    takes up to a hundred times as long.
    """
    known = 0 if first is None else len(first)
    dimension = rows.shape[1]
    found = np.zeros((known + len(rows), dimension))
    if first is not None:
        found[:known] = first
    spare = np.random.default_rng(1)
    for place, row in enumerate(rows.astype(np.float64), known):
        length = float(np.linalg.norm(row))
        while True:
            left = row / length if length else row
            for _ in range(2):
                left = left - (found[:place] @ left) @ found[:place]
            rest = float(np.linalg.norm(left))
            if rest > _LITTLE:
                break
            row, length = spare.standard_normal(dimension), 1.0
        found[place] = left / rest
    return found[known:].astype(np.float32)


_LITTLE: Final = 1e-4
