"""The interface of the vector store components, which store and compare vectors.

A store holds vectors only: the text, its words and its permissions are rows of the database. A query searches within
the caller's reach (``reach``); its result is never filtered afterwards.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

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


class VectorStore(ABC):
    """Vectors of memory items. Methods run on the database's worker thread, inside a transaction of ``connection``.

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

    def close(self) -> None:
        """Give back what is held open."""
        return
