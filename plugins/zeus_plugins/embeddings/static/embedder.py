"""Embeds texts with a table of word vectors: no network, no model to load, no key."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal

from zeus_plugins.embeddings.static.options import Options
from zeus_runtime.plugin.embedding import Calibration, Embedder, WorkerFactory

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zeus_plugins.embeddings.static.table import VectorTable
    from zeus_plugins.embeddings.static.wordpiece import Pieces, WordPiece
    from zeus_runtime.plugin import PlanContext

MODEL: Final = "static-minilm-l6-v2-1"
"""The table's name. Increase the number for a new table, so that older vectors are not compared with its vectors."""
DIMENSION: Final = 256
CALIBRATION: Final = Calibration(cosine_zero=0.15, cosine_one=0.6, trust=0.8, duplicate=0.87)
"""Chosen with ``python -m benchmarks.memory_quality --fit`` (docs/explanation/performance.md).

Nine in ten memories that are unrelated to a question have a cosine of about ``cosine_zero`` or less; nine in ten
answers have less than ``cosine_one``. In ``tests/plugins_bundled/embeddings/pairs.json`` no statement with another
value is above ``duplicate``.
"""
_OF_A_KIND: Final = 0.15
"""The minimum cosine of two values of one kind. Of 78 pairs of one kind ("black", "white"; "a nurse", "a doctor") 79 %
reach it, of 75 pairs of different kinds ("black", "lazy") 4 %."""
_AT_ONCE: Final = 64
"""Texts to embed before yielding to the event loop; about six milliseconds."""


def create(options: Options, context: PlanContext) -> StaticEmbedder:
    """Return an embedder for the bundled table, which is opened for the first text."""
    return StaticEmbedder(characters=options.characters)


class StaticEmbedder(Embedder):
    """Embeds a text as the weighted sum of its pieces' vectors, scaled to length 1.

    A query's vector leaves out the direction that all texts share (``common``): the way a question is asked is not its
    topic. The memories' part in that direction then does not count in the cosine, so memories keep it.

    Args:
        characters: compare words that are not in the table by their characters; otherwise ignore them.
    """

    dimension = DIMENSION
    calibration = CALIBRATION
    quick = True

    def __init__(self, *, characters: bool = True) -> None:
        self.model = MODEL if characters else f"{MODEL}-words"
        if type(self) is StaticEmbedder:  # a subclass may embed otherwise
            self.worker = WorkerFactory(f"{__name__}:StaticEmbedder", {"characters": characters})
        self._characters = characters

    async def embed(
        self, texts: Sequence[str], *, purpose: Literal["memory", "query"]
    ) -> NDArray[np.float32]:
        import asyncio

        import numpy as np

        vectors = np.zeros((len(texts), DIMENSION), dtype=np.float32)
        for row, text in enumerate(texts):
            if row and row % _AT_ONCE == 0:
                await asyncio.sleep(0)
            self._sum(self._words.pieces(text), vectors[row], query=purpose == "query")
        return vectors

    def of_a_kind(self, one: str, other: str) -> bool | None:
        import numpy as np

        both = [self._words.pieces(text) for text in (one, other)]
        if any(pieces.unknown or not pieces.known for pieces in both):
            return None
        vectors = np.zeros((2, DIMENSION), dtype=np.float32)
        for pieces, vector in zip(both, vectors, strict=True):
            self._sum(pieces, vector, query=False)
        return bool(vectors[0] @ vectors[1] >= _OF_A_KIND)

    def coverage(self, text: str) -> float:
        """Return the share of pieces that are in the table; each character of a run of ideographs is one piece."""
        from zeus_plugins.embeddings.static.wordpiece import ideographic

        known, unknown = self._words.pieces(text)
        missing = sum(len(word) if ideographic(word[0]) else 1 for word in unknown)
        return len(known) / (len(known) + missing) if known else 0.0

    def _sum(self, pieces: Pieces, vector: NDArray[np.float32], *, query: bool) -> None:
        import numpy as np

        if pieces.known:
            scales, rows = self._table.scales[pieces.known], self._table.rows[pieces.known]
            vector += scales @ rows.astype(np.float32)
            if query:
                from zeus_plugins.embeddings.static.common import without

                without(self._common, vector)
        if pieces.unknown and self._characters:
            from zeus_plugins.embeddings.static.characters import written

            vector += written(pieces.unknown, DIMENSION)
        length = float(np.sqrt(vector @ vector))
        if length > _NOTHING:
            vector /= length
        else:
            vector[:] = 0

    @cached_property
    def _table(self) -> VectorTable:
        from zeus_plugins.embeddings.static.table import read_table

        return read_table()

    @cached_property
    def _common(self) -> NDArray[np.float32]:
        from zeus_plugins.embeddings.static.common import common_direction

        return common_direction(self._table)

    @cached_property
    def _words(self) -> WordPiece:
        from zeus_plugins.embeddings.static.wordpiece import WordPiece

        return WordPiece(self._table.vocabulary)


_NOTHING: Final = 1e-6
"""A shorter sum is only a rounding error and has no direction."""
