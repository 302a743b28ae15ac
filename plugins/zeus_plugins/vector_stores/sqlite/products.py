"""Computes products of vectors on one thread, and selects the greatest ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

_T = TypeVar("_T", bound=np.generic)


def grown(array: NDArray[_T], taken: int, room: int) -> NDArray[_T]:
    """Return the array with room for more rows."""
    new = np.zeros((room, *array.shape[1:]), array.dtype)
    new[:taken] = array[:taken]
    return new


_THREADED: Final = 8_192
"""For matrices with this many numbers, OpenBLAS would start threads that busy-wait, which doubles the CPU time."""


def product(matrix: Vectors, vector: Vectors) -> Vectors:
    """Return ``matrix @ vector``, computed on one thread."""
    rows, dimension = matrix.shape
    block = max(1, _THREADED // max(1, dimension))
    whole = rows - rows % block
    product = np.empty(rows, np.float32)
    if whole:
        np.matmul(
            matrix[:whole].reshape(-1, block, dimension), vector, out=product[:whole].reshape(-1, block)
        )
    # Fewer rows than a block, so this is below the limit too.
    product[whole:] = matrix[whole:] @ vector
    return product


TOGETHER: Final = 16
"""Rows of a matrix product that OpenBLAS does not distribute to threads."""


def products(matrix: Vectors, directions: Vectors) -> Vectors:
    """Return ``matrix @ directions.T``, computed on one thread."""
    rows, dimension = matrix.shape
    whole = rows - rows % TOGETHER
    columns = np.ascontiguousarray(directions.T)
    products = np.empty((rows, len(directions)), np.float32)
    np.matmul(
        matrix[:whole].reshape(-1, TOGETHER, dimension),
        columns,
        out=products[:whole].reshape(-1, TOGETHER, len(directions)),
    )
    products[whole:] = matrix[whole:] @ columns
    return products


def greatest(values: Vectors, count: int) -> NDArray[np.intp]:
    """Return the indexes of the ``count`` greatest values and all equal ones, greatest first, equal ones by index."""
    least = np.partition(values, len(values) - count)[len(values) - count]
    places = np.flatnonzero(values >= least)
    return places[np.argsort(-values[places], kind="stable")]


def nearest_first(cosines: Vectors, slots: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the indexes of the cosines, greatest first, equal ones by slot."""
    return np.lexsort((slots, -cosines))
