"""A cache of the vectors of recent queries."""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Recent:
    """An LRU cache. It stores digests of the texts, not the texts themselves.

    Args:
        size: how many at most.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._vectors: OrderedDict[bytes, NDArray[np.float32]] = OrderedDict()

    def get(self, text: str) -> NDArray[np.float32] | None:
        key = _key(text)
        vector = self._vectors.get(key)
        if vector is not None:
            self._vectors.move_to_end(key)
        return vector

    def put(self, text: str, vector: NDArray[np.float32]) -> None:
        key = _key(text)
        self._vectors[key] = vector
        self._vectors.move_to_end(key)
        while len(self._vectors) > self._size:
            self._vectors.popitem(last=False)


def _key(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
