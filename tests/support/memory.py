"""Memory for tests: an embedding model that needs no weights, and services on a database of their own."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from zeus_plugins.vector_stores.sqlite.store import SqliteVectorStore
from zeus_runtime.memory.embedding import Calibration, Embedder, EmbeddingUnavailableError, Purpose
from zeus_runtime.memory.fusion import search_tokens
from zeus_runtime.memory.items import Caller, MemorySettings
from zeus_runtime.memory.service import MemoryService, MemorySource
from zeus_runtime.memory.vectors import VectorStore

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


class HashingEmbedder(Embedder):
    """Each word points somewhere, and a text where its words point together.

    Args:
        dimension: of the vectors.
        model: its name.
        quick: whether a write waits for it.
    """

    calibration = Calibration(cosine_zero=0.1, cosine_one=0.9, trust=0.9, duplicate=0.8)

    def __init__(self, dimension: int = 64, *, model: str = "hashing", quick: bool = True) -> None:
        self.dimension = dimension
        self.model = model
        self.quick = quick
        self.asked: list[str] = []
        self.failing = False

    async def embed(self, texts: Sequence[str], *, purpose: Purpose) -> Any:
        if self.failing:
            raise EmbeddingUnavailableError("the embedding model does not answer")
        self.asked += texts
        return np.stack([self.vector(text) for text in texts]) if texts else np.zeros((0, self.dimension), np.float32)

    def vector(self, text: str) -> np.ndarray[Any, np.dtype[np.float32]]:
        total = sum((self._direction(word) for word in search_tokens(text)), np.zeros(self.dimension))
        length = np.linalg.norm(total)
        return np.asarray(total / length if length else total, np.float32)

    def _direction(self, word: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        seed = int.from_bytes(hashlib.blake2b(f"{self.model} {word}".encode(), digest_size=8).digest())
        return np.random.default_rng(seed).standard_normal(self.dimension)


class Clock:
    """A clock that is told."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now

    def forward(self, **duration: float) -> None:
        self.now += timedelta(**duration)


def service(
    folder: Path,
    caller: Caller | None = None,
    *,
    embedder: Embedder | None = None,
    words_only: bool = False,
    settings: MemorySettings | None = None,
    clock: Callable[[], datetime] | None = None,
    open_vectors: Callable[[], VectorStore] = SqliteVectorStore,
    url: str = "sqlite:///memory.db",
    **more: Any,
) -> MemoryService:
    """Memory in a database of ``folder``."""
    model = embedder or HashingEmbedder()
    source = MemorySource(
        url,
        folder,
        open_vectors,
        None if words_only else lambda: model,
        settings or MemorySettings(),
        **({"now": clock} if clock else {}),
        **more,
    )
    return MemoryService(source, caller or Caller("ann", session_id="s1"))


def numbered(prefix: str = "m") -> Callable[[], str]:
    """Ids that count up."""
    numbers = itertools.count(1)
    return lambda: f"{prefix}{next(numbers)}"
