"""Columns that more is added to, one by one, without being copied each time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def grown(column: NDArray[Any], taken: int, room: int) -> NDArray[Any]:
    """The column with room for more."""
    new = np.zeros(room, column.dtype)
    new[:taken] = column[:taken]
    return new
