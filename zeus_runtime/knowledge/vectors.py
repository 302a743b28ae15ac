"""The vectors of knowledge bases in a vector store: whose they are, what they were made from, when they are written.

A base has a collection there. A chunk's vector has a number made of its document and its place in it, and a digest of
its text and the model. A store that is not in the database's transaction is written after it. So a killed process may
leave a chunk without a vector, or a vector without a chunk. The digests show it, and the next ingest repairs it.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

from zeus_runtime.memory.vectors import DIGEST_BYTES, CollectionEntries, VectorStore

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from sqlalchemy import Connection

    from zeus_runtime.knowledge.caller_database import CallerDatabase
    from zeus_runtime.memory.embedding import Vectors

T = TypeVar("T")

PLACE_BITS: Final = 24
"""Of a vector's number, for the chunk's place in its document. A file has at most 100 MB, so it has fewer chunks."""
NO_VECTOR: Final = bytes(DIGEST_BYTES)
"""The digest of a chunk of which its model knows no word."""


def number_of(document: int, place: int) -> int:
    """The number of a chunk's vector. A document's key is never used again, so neither is the number."""
    return document << PLACE_BITS | place


def new_name() -> str:
    """The name of a new collection, unlike those of all databases."""
    return f"kb-{secrets.token_hex(12)}"


def text_digests(texts: Iterable[str], model: str, dimension: int) -> list[bytes]:
    """What a model's vector of each text is made from."""
    whole = hashlib.blake2b(f"{model}|{dimension}\0".encode(), digest_size=DIGEST_BYTES)
    found = []
    for text in texts:
        each = whole.copy()
        each.update(text.encode("utf-8", "surrogatepass"))
        found.append(each.digest())
    return found


def kept_digests(digests: Sequence[bytes], vectors: Vectors) -> list[bytes]:
    """The digests of chunks with these vectors."""
    there: list[bool] = np.any(vectors, axis=1).tolist()
    return [digest if kept else NO_VECTOR for digest, kept in zip(digests, there, strict=True)]


def entries_of(
    ids: Sequence[int], digests: Sequence[bytes], vectors: NDArray[np.float32]
) -> CollectionEntries:
    """The entries of those chunks that have a vector."""
    if NO_VECTOR not in digests:
        return CollectionEntries(ids, digests, vectors)
    there = [place for place, digest in enumerate(digests) if digest != NO_VECTOR]
    return CollectionEntries(
        [ids[place] for place in there], [digests[place] for place in there], vectors[there]
    )


@dataclass
class VectorChange:
    """What a transaction on rows changes of a base's vectors.

    Args:
        put: new ones.
        removed: the numbers of vectors whose chunks are no more.
    """

    put: list[CollectionEntries] = field(default_factory=list)
    removed: list[int] = field(default_factory=list)


class BaseVectors:
    """A collection, written in the transaction of the rows or right after it.

    Args:
        database: of the rows.
        store: where the collection is.
        name, dimension: of the collection.
    """

    def __init__(self, database: CallerDatabase, store: VectorStore, name: str, dimension: int) -> None:
        self.collection: Final = store.collection(name, dimension)
        self._database = database
        self._is_in_transaction = store.transactional

    async def run(self, work: Callable[[Connection, VectorChange], T]) -> T:
        """Run ``work`` on the rows in one transaction, and make the change that it says."""

        def transaction(connection: Connection) -> tuple[T, VectorChange]:
            change = VectorChange()
            result = work(connection, change)
            if self._is_in_transaction:
                self.apply(connection, change)
            return result, change

        result, change = await self._database.run(transaction)
        if not self._is_in_transaction:
            # After the rows' commit: a rollback behind it would leave rows whose vectors are gone.
            await self._database.run(lambda connection: self.apply(connection, change))
        return result

    def apply(self, connection: Connection, change: VectorChange) -> None:
        """Make a change."""
        if change.removed:
            self.collection.remove(connection, change.removed)
        for entries in change.put:
            self.collection.put(connection, entries)
