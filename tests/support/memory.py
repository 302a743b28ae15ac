"""Memory for tests: an embedding model that needs no weights, and services on a database of their own."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from zeus_plugins.vector_stores.sqlite.store import SqliteVectorStore

from zeus_runtime.memory.embedding import Calibration, Embedder, EmbeddingUnavailableError, Purpose
from zeus_runtime.memory.items import Caller, MemorySettings
from zeus_runtime.memory.opened import MemorySource
from zeus_runtime.memory.retrieval.analysis import search_tokens
from zeus_runtime.memory.service import MemoryService
from zeus_runtime.memory.vectors import Entry, VectorQuery, VectorStore

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
        return (
            np.stack([self.vector(text) for text in texts])
            if texts
            else np.zeros((0, self.dimension), np.float32)
        )

    def vector(self, text: str) -> np.ndarray[Any, np.dtype[np.float32]]:
        total = sum((self._direction(word) for word in search_tokens(text)), np.zeros(self.dimension))
        length = np.linalg.norm(total)
        return np.asarray(total / length if length else total, np.float32)

    def _direction(self, word: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        seed = int.from_bytes(hashlib.blake2b(f"{self.model} {word}".encode(), digest_size=8).digest())
        return np.random.default_rng(seed).standard_normal(self.dimension)


class OutsideStore(VectorStore):
    """Vectors in a place of their own, which a test can spoil."""

    transactional = False

    def __init__(self, kept: dict[str, Entry] | None = None) -> None:
        self.kept = {} if kept is None else kept

    def prepare(self, connection: Any) -> None:
        return

    def put(self, connection: Any, entries: Sequence[Entry]) -> None:
        self.kept |= {entry.item.id: entry for entry in entries}

    def remove(self, connection: Any, ids: Collection[str]) -> None:
        for each in ids:
            self.kept.pop(each, None)

    def nearest(self, connection: Any, query: VectorQuery) -> Iterator[tuple[str, float]]:
        found = self.cosines(connection, query, self.kept)
        return iter(sorted(found.items(), key=lambda each: -each[1]))

    def cosines(self, connection: Any, query: VectorQuery, ids: Collection[str]) -> dict[str, float]:
        return {
            each: float(self.kept[each].vector @ query.vector)
            for each in ids
            if each in self.kept and self._asked(self.kept[each], query)
        }

    def _asked(self, entry: Entry, query: VectorQuery) -> bool:
        own = entry.item.created_by == query.user_id
        return (
            entry.embedding == query.embedding
            and query.memory_type in (None, entry.item.memory_type)
            and any(
                (part.scope, part.scope_id) == (entry.item.scope, entry.item.scope_id)
                and grant.covers(entry.item.visibility, own=own)
                for part in query.reach
                for grant in part.grants
            )
        )

    def ids(self, connection: Any) -> set[str]:
        return set(self.kept)


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
        open_offline=lambda: model,
        **more,
    )
    return MemoryService(source, caller or Caller("ann", session_id="s1"))


def numbered(prefix: str = "m") -> Callable[[], str]:
    """Ids that count up."""
    numbers = itertools.count(1)
    return lambda: f"{prefix}{next(numbers)}"
