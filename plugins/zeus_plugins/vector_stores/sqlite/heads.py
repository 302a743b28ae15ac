"""Splits vectors into a head, along the directions in which they differ most, and the length of the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from zeus_plugins.vector_stores.sqlite.products import TOGETHER, grown, product, products

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

HEAD: Final = 64
# Above the error of a float32 product of vectors of length 1, so that a bound is never below the cosine.
ROUNDING: Final = 1e-5
_SAMPLE: Final = 1_024
_ROUNDS: Final = 4
_LITTLE: Final = 1e-4


class Heads:
    """The heads of vectors, their coordinates along 64 directions, and the lengths of their rests.

    ``head · head' + rest × rest'`` is never below the product of two vectors (Cauchy and Schwarz).

    Args:
        directions: orthonormal, shape (64, dimension).
        before: heads along other directions, orthogonal to these; these heads are taken from the rests of ``before``.
    """

    def __init__(self, directions: Vectors, before: Heads | None = None) -> None:
        self.directions = directions
        self._before = before
        self._heads: Vectors = np.zeros((0, HEAD), np.float32)
        self._rests: Vectors = np.zeros(0, np.float32)
        self._taken = 0

    def __len__(self) -> int:
        return self._taken

    @property
    def nbytes(self) -> int:
        return self._heads.nbytes

    @property
    def heads(self) -> Vectors:
        """Shape (vectors, 64)."""
        return self._heads[: self._taken]

    @property
    def rests(self) -> Vectors:
        """Lengths, rounded up."""
        return self._rests[: self._taken]

    def make_room(self, room: int) -> None:
        """Allocate room for this many vectors."""
        if room > len(self._heads):
            self._heads = grown(self._heads, self._taken, room)
            self._rests = grown(self._rests, self._taken, room)

    def complete(self, vectors: Vectors) -> None:
        """Add the heads of new vectors; ``vectors`` begins with those that already have a head."""
        start, end = self._taken, len(vectors)
        if start == end:
            return
        if end > len(self._heads):
            self.make_room(end + end // 8 + 64)
        heads = products(vectors[start:end], self.directions)
        whole = 1.0 if self._before is None else self._before.rests[start:end] ** 2
        # Rounding may make the difference a little negative.
        left = np.maximum(0.0, whole - np.einsum("ij,ij->i", heads, heads))
        self._heads[start:end] = heads
        self._rests[start:end] = np.sqrt(left) + ROUNDING
        self._taken = end

    def at_most(self, query: Vectors) -> Vectors:
        """Return an upper bound of each vector's cosine with ``query``, rounding included. For first heads only."""
        head = product(self.directions, query)
        rest = float(np.sqrt(max(0.0, 1.0 - float(head @ head))))
        bounds = self.rests * np.float32(rest + ROUNDING)
        bounds += product(self.heads, head)
        bounds += np.float32(ROUNDING)
        return bounds


def directions(vectors: Vectors, first: Vectors | None = None) -> Vectors:
    """Return 64 orthonormal directions, shape (64, dimension), that cover most of a sample of the vectors.

    Found by subspace iteration. Their quality affects only the time, never the result.

    Args:
        first: directions to which all returned ones are orthogonal.
    """
    step = max(1, len(vectors) // _SAMPLE)
    sample = vectors[::step][:_SAMPLE]
    sample = sample[: len(sample) - len(sample) % TOGETHER]
    blocks = sample.reshape(-1, TOGETHER, sample.shape[1])
    # A fixed seed: the same vectors have the same directions, so a run can be repeated.
    found = np.random.default_rng(0).standard_normal((HEAD, sample.shape[1])).astype(np.float32)
    for _ in range(_ROUNDS):
        shares = products(sample, found).reshape(-1, TOGETHER, HEAD)
        found = _orthonormal(np.matmul(shares.transpose(0, 2, 1), blocks).sum(axis=0), first)
    return found


def _orthonormal(rows: Vectors, first: Vectors | None) -> Vectors:
    """Return orthonormal rows that span ``rows`` without ``first``, filled up with any rows if the span is smaller.

    Gram-Schmidt, each row twice. For so small a matrix LAPACK's decomposition starts threads that busy-wait, and can
    need a hundred times as long.
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
            # Once leaves a rest along the earlier rows if the row was almost parallel to them.
            for _ in range(2):
                left = left - (found[:place] @ left) @ found[:place]
            rest = float(np.linalg.norm(left))
            if rest > _LITTLE:
                break
            # The row depends on the earlier ones, as for equal vectors: any other direction will do.
            row, length = spare.standard_normal(dimension), 1.0
        found[place] = left / rest
    return found[known:].astype(np.float32)
