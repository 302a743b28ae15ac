"""The interface of the vector store components, which store and compare vectors of memories and of knowledge bases.

A store holds vectors only: the text, its words and its permissions are rows of the database. A query for memories
searches within the caller's reach (``reach``); its result is never filtered afterwards. A knowledge base has a
``VectorCollection`` of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from zeus_runtime.errors import MissingError
from zeus_runtime.memory.items import Embedding, MemoryItem, MemoryType
from zeus_runtime.memory.permissions import Reach

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from sqlalchemy import Connection


@dataclass(frozen=True, eq=False)
class Entry:
    """An item and its vector: shape (dimension,), float32, length 1.

    Raises:
        ValueError: the vector's shape is another.
    """

    item: MemoryItem
    embedding: Embedding
    vector: NDArray[np.float32]

    def __post_init__(self) -> None:
        if self.vector.shape != (self.embedding.dimension,):
            raise ValueError(f"a vector of shape {self.vector.shape}, not ({self.embedding.dimension},)")


@dataclass(frozen=True, eq=False)
class VectorQuery:
    """Active items within the reach whose vectors are of this model and dimension.

    Args:
        vector: shape (dimension,), float32, length 1.
        reach: the places that the caller may see; empty means none.
        user_id: the caller, for the parts of the reach that cover only their own items.
        memory_type: only this type; None for all.
        at_least: ``nearest`` may leave out items with a smaller cosine, which can save a store much work.
    """

    vector: NDArray[np.float32]
    embedding: Embedding
    reach: tuple[Reach, ...]
    user_id: str
    memory_type: MemoryType | None = None
    at_least: float = -1.0


class AtHand(ABC):
    """The vectors of one part of a query's reach, kept in the process, each in a slot that is never reused.

    The slots belong to the object ``kept``: another object has other slots.
    """

    kept: object

    @abstractmethod
    def ids(self, start: int) -> Sequence[str]:
        """Return the items in the slots from ``start`` on."""

    @abstractmethod
    def slots(self, ids: Sequence[str]) -> NDArray[np.intp]:
        """Return the slots of these items; -1 for an item without a vector."""

    @abstractmethod
    def at_most(self) -> NDArray[np.float32]:
        """Return for each slot an upper bound of the cosine, rounding included; -inf for items outside the query."""

    def at_most_of(self, slots: NDArray[np.intp]) -> NDArray[np.float32]:
        """Return bounds of these slots, at most those of ``at_most``, which was called before.

        Override it if a closer bound costs less than the cosine.
        """
        return self.cosines(slots)

    @abstractmethod
    def cosines(self, slots: NDArray[np.intp]) -> NDArray[np.float32]:
        """Return the cosines of these slots; -inf for items outside the query."""


DIGEST_BYTES: Final = 16


class CollectionEntries(NamedTuple):
    """Vectors of a collection.

    Args:
        ids: one number for each, positive and below 2**63; no number twice.
        digests: ``DIGEST_BYTES`` for each, of the text and the model that its vector was made from.
        vectors: shape (ids, dimension), float32, each of length 1.
    """

    ids: Sequence[int]
    digests: Sequence[bytes]
    vectors: NDArray[np.float32]


class FoundVector(NamedTuple):
    """A vector that a collection was asked for, and its cosine with the query."""

    id: int
    digest: bytes
    cosine: float


class VectorCollection(ABC):
    """The vectors of one model and dimension under a name, such as a knowledge base's. It exists from its first entry.

    Methods run as those of its ``VectorStore`` do. The digests tell whether a vector is still its text's: its user
    compares them with the rows, and never has a vector computed that is there.
    """

    @abstractmethod
    def put(self, connection: Connection, entries: CollectionEntries) -> None:
        """Store the vectors, replacing those of the same numbers."""

    @abstractmethod
    def remove(self, connection: Connection, ids: Collection[int]) -> None:
        """Remove these vectors; numbers without a vector are skipped."""

    @abstractmethod
    def read(self, connection: Connection, ids: Collection[int]) -> CollectionEntries:
        """The entries of these numbers, in any order; a number without a vector is left out."""

    @abstractmethod
    def digests(self, connection: Connection) -> Mapping[int, bytes]:
        """The digest of each vector by its number."""

    def size(self, connection: Connection) -> int:
        """The number of vectors. Override it if they need not be read for it."""
        return len(self.digests(connection))

    @abstractmethod
    def nearest(self, connection: Connection, vector: NDArray[np.float32]) -> Iterator[FoundVector]:
        """Yield all vectors by cosine, greatest first, as far as the caller reads.

        Args:
            vector: shape (dimension,), float32, length 1.
        """

    @abstractmethod
    def drop(self, connection: Connection) -> None:
        """Remove the collection with all its vectors; nothing happens if it does not exist."""


class VectorStore(ABC):
    """Vectors of memory items, and collections of others.

    Methods run on the database's worker thread, inside a transaction of ``connection``.
    ``transactional`` stores write on that connection, so a vector is there exactly when its row is. Others write
    elsewhere after the row's transaction, and are rebuilt from the rows where they differ.
    """

    transactional: bool = True

    @abstractmethod
    def prepare(self, connection: Connection) -> None:
        """Create the tables or folders that do not exist yet.

        Raises:
            MissingError: an extension, a library or a right is missing; the message names it.
        """

    def index(self, connection: Connection) -> None:
        """Build slow things, such as an index, while others read and write; after ``prepare``, outside a transaction.

        Searches also work without it.
        """
        return

    @abstractmethod
    def put(self, connection: Connection, entries: Sequence[Entry]) -> None:
        """Store the vectors, replacing older vectors of the items."""

    @abstractmethod
    def remove(self, connection: Connection, ids: Collection[str]) -> None:
        """Remove the vectors of these items; items without a vector are skipped."""

    @abstractmethod
    def nearest(self, connection: Connection, query: VectorQuery) -> Iterator[tuple[str, float]]:
        """Yield (id, cosine) by cosine, greatest first, as far as the caller reads.

        The order is exact: a later item is never nearer than an earlier one. So a caller that ranks by more than the
        cosine can read until no unseen item can win.
        """

    @abstractmethod
    def cosines(self, connection: Connection, query: VectorQuery, ids: Collection[str]) -> dict[str, float]:
        """The cosines of these items alone; an item without a vector or out of reach is left out."""

    def at_hand(self, connection: Connection, query: VectorQuery) -> Sequence[AtHand] | None:
        """The vectors of each part of the reach if all are kept in the process, which spares asking one by one."""
        return None

    @abstractmethod
    def ids(self, connection: Connection) -> set[str]:
        """All items that have a vector here, to be compared with the rows."""

    def made_from(self, connection: Connection) -> Mapping[str, tuple[Embedding, int] | None]:
        """What each item's vector was made from, for a store that is not in the transaction: model and version.

        None where that is not known: then it is only compared whether there is one.
        """
        return dict.fromkeys(self.ids(connection))

    def collection(self, name: str, dimension: int) -> VectorCollection:
        """The collection of a name; whoever names it again gives the same dimension.

        Args:
            name: letters, digits and hyphens, 3 to 63, unique among all databases that use the store.

        Raises:
            MissingError: the store has no collections.
        """
        raise MissingError(
            f"the vector store {type(self).__name__} stores vectors of memories only, none of knowledge bases",
            remedy="Set memory.vector_store to another one, such as sqlite, pgvector or chroma.",
        )

    def close(self) -> None:
        """Give back what is held open."""
        return
