"""Collections of vectors as ChromaDB's collections of the same names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from zeus_runtime.plugin.vector_store import CollectionEntries, FoundVector, VectorCollection

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray
    from sqlalchemy import Connection

AT_ONCE: Final = 1_000
PAGE: Final = 10_000
"""Read at once; with more than 32,766, ChromaDB's own query has too many variables for SQLite."""
SPACE: Final = {"hnsw": {"space": "cosine", "ef_construction": 200, "ef_search": 1_000}}
_FIRST: Final = 64
_GROWTH: Final = 4


def pages(collection: Any, *include: str) -> Iterator[Any]:
    """All that a collection of ChromaDB's has, ``PAGE`` entries at a time."""
    start = 0
    while len((found := collection.get(include=list(include), limit=PAGE, offset=start))["ids"]):
        yield found
        start += PAGE


class ChromaCollection(VectorCollection):
    """One collection.

    ``nearest`` asks HNSW, so a near vector may be left out of a block and yielded in a later one.

    Args:
        client: ChromaDB's.
        explained: in its context, ChromaDB's errors are the user's.
    """

    def __init__(
        self, name: str, dimension: int, client: Any, explained: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self._name = name
        self._dimension = dimension
        self._client = client
        self._explained = explained

    def put(self, connection: Connection, entries: CollectionEntries) -> None:
        if not len(entries.ids):
            return
        vectors = np.asarray(entries.vectors, np.float32)
        with self._explained():
            collection = self._client.get_or_create_collection(
                self._name,
                metadata={"dimension": self._dimension},
                configuration=SPACE,
                embedding_function=None,
            )
            for start in range(0, len(entries.ids), AT_ONCE):
                some = slice(start, start + AT_ONCE)
                collection.upsert(
                    ids=[str(each) for each in entries.ids[some]],
                    embeddings=vectors[some],
                    metadatas=[{"digest": each.hex()} for each in entries.digests[some]],
                )

    def remove(self, connection: Connection, ids: Collection[int]) -> None:
        wanted = [str(each) for each in ids]
        with self._explained():
            collection = self._there()
            if collection is not None:
                for start in range(0, len(wanted), AT_ONCE):
                    collection.delete(ids=wanted[start : start + AT_ONCE])

    def read(self, connection: Connection, ids: Collection[int]) -> CollectionEntries:
        wanted = [str(each) for each in ids]
        numbers: list[int] = []
        digests: list[bytes] = []
        vectors = [np.zeros((0, self._dimension), np.float32)]
        with self._explained():
            collection = self._there()
            for start in range(0, len(wanted) if collection is not None else 0, AT_ONCE):
                some = wanted[start : start + AT_ONCE]
                found = collection.get(ids=some, include=["metadatas", "embeddings"])
                numbers += map(int, found["ids"])
                digests += map(_digest, found["metadatas"])
                vectors.append(np.asarray(found["embeddings"], np.float32).reshape(-1, self._dimension))
        return CollectionEntries(numbers, digests, np.concatenate(vectors))

    def digests(self, connection: Connection) -> Mapping[int, bytes]:
        with self._explained():
            collection = self._there()
            if collection is None:
                return {}
            return {
                int(number): _digest(metadata)
                for found in pages(collection, "metadatas")
                for number, metadata in zip(found["ids"], found["metadatas"], strict=True)
            }

    def size(self, connection: Connection) -> int:
        with self._explained():
            collection = self._there()
            return 0 if collection is None else int(collection.count())

    def nearest(self, connection: Connection, vector: NDArray[np.float32]) -> Iterator[FoundVector]:
        given: set[int] = set()
        limit = _FIRST
        # A larger limit asks the whole collection again, so the blocks grow by factors: few repeated answers, few
        # queries.
        while limit <= PAGE:
            with self._explained():
                collection = self._there()
                if collection is None:
                    return
                found = collection.query(
                    query_embeddings=[vector], n_results=limit, include=["distances", "metadatas"]
                )
                is_last = len(found["ids"][0]) < limit
                # A part of HNSW's graph that no link leads to is never found, at any limit.
                if is_last and len(found["ids"][0]) < collection.count():
                    break
            rows = zip(found["distances"][0], map(int, found["ids"][0]), found["metadatas"][0], strict=True)
            for distance, number, metadata in sorted(rows, key=lambda each: each[:2]):
                if number not in given:
                    given.add(number)
                    # ChromaDB's cosine distance is 1 - cosine.
                    yield FoundVector(number, _digest(metadata), 1 - distance)
            if is_last:
                return
            limit *= _GROWTH
        # HNSW's candidates end at `ef_search`, and a caller that rejects many vectors may ask for all: compare the
        # rest here.
        yield from (each for each in self._compared(vector) if each.id not in given)

    def _compared(self, vector: NDArray[np.float32]) -> Sequence[FoundVector]:
        """All vectors, compared here, nearest first."""
        found = []
        with self._explained():
            collection = self._there()
            for page in pages(collection, "metadatas", "embeddings") if collection is not None else ():
                cosines = np.asarray(page["embeddings"], np.float32) @ vector
                found += [
                    FoundVector(int(number), _digest(metadata), cosine)
                    for number, metadata, cosine in zip(
                        page["ids"], page["metadatas"], cosines.tolist(), strict=True
                    )
                ]
        return sorted(found, key=lambda each: (-each.cosine, each.id))

    def drop(self, connection: Connection) -> None:
        with self._explained():
            if self._there() is not None:
                self._client.delete_collection(self._name)

    def _there(self) -> Any:
        """ChromaDB's collection; None if it does not exist. Another process may make or drop it at any time."""
        from chromadb.errors import NotFoundError

        try:
            # A collection's default embedder would download a model.
            return self._client.get_collection(self._name, embedding_function=None)
        except NotFoundError:
            return None


def _digest(metadata: Mapping[str, Any]) -> bytes:
    return bytes.fromhex(str(metadata["digest"]))
