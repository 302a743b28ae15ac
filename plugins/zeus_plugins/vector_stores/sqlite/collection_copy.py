"""The vectors of a collection in the process, compared there exactly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np

from zeus_runtime.plugin.vector_store import DIGEST_BYTES, FoundVector

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FIRST: Final = 64
_GROWTH: Final = 8


class CollectionCopy:
    """Vectors with their numbers and digests, in the order in which they were added.

    Attributes:
        ids: their numbers.
        vectors: shape (vectors, dimension).
    """

    def __init__(self, dimension: int) -> None:
        self.ids: NDArray[np.int64] = np.zeros(0, np.int64)
        self.vectors: NDArray[np.float32] = np.zeros((0, dimension), np.float32)
        self._digests: NDArray[np.uint8] = np.zeros((0, DIGEST_BYTES), np.uint8)

    def keep(self, kept: NDArray[np.bool_]) -> None:
        """Drop all vectors but these."""
        self.ids, self.vectors, self._digests = self.ids[kept], self.vectors[kept], self._digests[kept]

    def add(self, ids: NDArray[np.int64], digests: bytes, vectors: NDArray[np.float32]) -> None:
        """Add vectors at the end."""
        more = np.frombuffer(digests, np.uint8).reshape(-1, DIGEST_BYTES)
        self.ids = np.concatenate((self.ids, ids))
        self.vectors = np.concatenate((self.vectors, vectors))
        self._digests = np.concatenate((self._digests, more))

    def nearest(self, vector: NDArray[np.float32]) -> Iterator[FoundVector]:
        """Yield all by cosine, greatest first, equal ones by number."""
        # The arrays are replaced and never changed, so the iterator keeps its state while others add and drop
        # vectors.
        ids, digests = self.ids, self._digests
        # Not BLAS: for one vector its threads cost more than they save, and equal vectors may get unequal cosines.
        cosines = np.einsum("ij,j->i", self.vectors, np.asarray(vector, np.float32))
        done, wanted = 0, _FIRST
        # Each block sorts the best `wanted` and those equal to the last of them, so equal cosines never fall into two
        # blocks.
        while done < len(cosines):
            if wanted < len(cosines):
                least = np.partition(cosines, len(cosines) - wanted)[len(cosines) - wanted]
                places = np.flatnonzero(cosines >= least)
            else:
                places = np.arange(len(cosines))
            order = places[np.lexsort((ids[places], -cosines[places]))]
            for place in order[done:].tolist():
                yield FoundVector(int(ids[place]), digests[place].tobytes(), float(cosines[place]))
            done, wanted = len(order), max(wanted, len(order)) * _GROWTH
