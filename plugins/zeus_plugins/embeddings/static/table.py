"""The table of word vectors on disk. It is memory-mapped, so the first embedding reads only a few pages.

``scripts/distill_embeddings.py`` writes it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FOLDER: Final = Path(__file__).parent
VOCABULARY: Final = "vocabulary.txt"
ROWS: Final = "rows.npy"
SCALES: Final = "scales.npy"


class VectorTable(NamedTuple):
    """One vector for each piece of the vocabulary: ``rows[i] * scales[i]``, already weighted.

    Args:
        vocabulary: piece to row.
        rows: int8, (pieces, dimension).
        scales: float32, (pieces,).
    """

    vocabulary: dict[str, int]
    rows: NDArray[np.int8]
    scales: NDArray[np.float32]


def read_table(folder: Path = FOLDER) -> VectorTable:
    """The table in ``folder``."""
    import numpy as np

    pieces = (folder / VOCABULARY).read_text(encoding="utf-8").split("\n")
    return VectorTable(
        {piece: row for row, piece in enumerate(pieces)},
        np.load(folder / ROWS, mmap_mode="r"),
        np.load(folder / SCALES),
    )
