"""A vector store in use: the database beside it, items to keep in it, and what arithmetic says it should find."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from zeus_runtime.memory.items import Caller, Embedding, MemoryItem, MemoryType, Scope
from zeus_runtime.memory.permissions import reach
from zeus_runtime.memory.vectors import (
    DIGEST_BYTES,
    AtHand,
    CollectionEntries,
    Entry,
    FoundVector,
    VectorCollection,
    VectorQuery,
    VectorStore,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from sqlalchemy import Connection, Engine

T = TypeVar("T")

ANN: Final = Caller("ann", "apollo", "owner", "s1")
"""The default caller."""

_WHEN: Final = datetime(2026, 1, 1, tzinfo=UTC)
_ROUNDING: Final = 1e-5


@contextmanager
def opened(
    folder: Path, open_store: Callable[[Path], VectorStore], open_engine: Callable[[Path], Engine]
) -> Iterator[StoreInUse]:
    """A store in ``folder``, prepared twice, as whoever comes second does; closed afterwards."""
    from zeus_runtime.memory.records import begin_write
    from zeus_runtime.store.knowledge_tables import create_knowledge_tables
    from zeus_runtime.store.memory_tables import create_memory_tables
    from zeus_runtime.store.tables import IDENTITY

    engine = open_engine(folder)
    store = open_store(folder)

    def prepare(connection: Connection) -> None:
        begin_write(connection)
        IDENTITY.create(connection, checkfirst=True)
        create_memory_tables(connection)
        create_knowledge_tables(connection)
        store.prepare(connection)
        store.prepare(connection)

    in_use = StoreInUse(store, engine, lambda: opened(folder, open_store, open_engine))
    try:
        in_use.run(prepare)
        yield in_use
    finally:
        store.close()
        engine.dispose()


def unit_vectors(count: int, *, dimension: int, seed: int = 1) -> NDArray[np.float32]:
    """Random directions, ``count`` by ``dimension``."""
    import numpy as np

    found = np.random.default_rng(seed).standard_normal((count, dimension))
    return np.asarray(found / np.linalg.norm(found, axis=1, keepdims=True), np.float32)


@dataclass(frozen=True)
class StoreInUse:
    """A vector store with the database that it is given connections of, whose rows are there before their vectors.

    Args:
        store: what is tested.
        engine: the database.
        again: opens another store on the same place.
    """

    store: VectorStore
    engine: Engine
    again: Callable[[], AbstractContextManager[StoreInUse]]

    def run(self, work: Callable[[Connection], T]) -> T:
        """Do it in one transaction."""
        with self.engine.connect() as connection, connection.begin():
            return work(connection)

    def put(self, pairs: Sequence[tuple[MemoryItem, NDArray[np.float32]]], *, model: str = "model-a") -> None:
        """Write the rows of items and put their vectors, in one transaction."""

        def work(connection: Connection) -> None:
            self._write(connection, pairs, model)

        self.run(work)

    def _write(
        self, connection: Connection, pairs: Sequence[tuple[MemoryItem, NDArray[np.float32]]], model: str
    ) -> None:
        from zeus_runtime.memory import records

        records.begin_write(connection)
        entries = []
        for item, vector in pairs:
            embedding = Embedding(model, len(vector))
            embedded = replace(item, embedding=embedding)
            place = records.changed(connection, records.lock_place(connection, item.scope, item.scope_id))
            if not records.exists(connection, item.id):
                records.write(connection, embedded, place)
            else:
                records.rewrite(connection, embedded, place)
            entries.append(Entry(embedded, embedding, vector))
        self.store.put(connection, entries)

    def roll_back(
        self,
        pairs: Sequence[tuple[MemoryItem, NDArray[np.float32]]],
        *,
        remove: Sequence[str],
        query: NDArray[np.float32],
    ) -> None:
        """Put and remove, look, and give it all up."""
        with self.engine.connect() as connection, connection.begin() as transaction:
            self._write(connection, pairs, "model-a")
            self.store.remove(connection, remove)
            seen = {each for each, _ in self.store.nearest(connection, _query(query, ANN))}
            transaction.rollback()
        assert seen == {item.id for item, _ in pairs}, "a transaction sees what it wrote itself"

    def remove(self, ids: Sequence[str]) -> None:
        """Remove vectors, whose rows stay."""
        from zeus_runtime.memory import records

        def work(connection: Connection) -> None:
            records.begin_write(connection)
            self.store.remove(connection, ids)

        self.run(work)

    def nearest(
        self,
        vector: NDArray[np.float32],
        *,
        caller: Caller = ANN,
        model: str = "model-a",
        memory_type: MemoryType | None = None,
        first: int | None = None,
        at_least: float = -1.0,
    ) -> list[tuple[str, float]]:
        """The ids and cosines of what a caller finds, nearest first."""
        query = replace(_query(vector, caller, model), memory_type=memory_type, at_least=at_least)
        return self.run(lambda connection: list(islice(self.store.nearest(connection, query), first)))

    def cosines(
        self, vector: NDArray[np.float32], ids: Sequence[str], *, caller: Caller = ANN
    ) -> dict[str, float]:
        """The cosines; a store with vectors in memory gives the same cosines by slots."""

        def work(connection: Connection) -> dict[str, float]:
            query = _query(vector, caller)
            cosines, parts = self.store.cosines(connection, query, ids), self.store.at_hand(connection, query)
            if parts is not None:
                assert len(parts) == len(query.reach)
                by_slots = _by_slots(parts, ids)
                assert by_slots.keys() == cosines.keys()
                assert all(abs(by_slots[each] - cosines[each]) < _ROUNDING for each in cosines)
            return cosines

        return self.run(work)

    def ids(self) -> set[str]:
        """Of all memories that the store keeps."""
        return self.run(self.store.ids)

    def in_collection(
        self, name: str, dimension: int, work: Callable[[VectorCollection, Connection], T]
    ) -> T:
        """Do it with a collection, in one transaction."""
        from zeus_runtime.memory import records

        def transaction(connection: Connection) -> T:
            records.begin_write(connection)
            return work(self.store.collection(name, dimension), connection)

        return self.run(transaction)

    def fill(
        self,
        name: str,
        vectors: NDArray[np.float32],
        *,
        ids: Sequence[int] | None = None,
        digests: Sequence[bytes] | None = None,
    ) -> None:
        """Put vectors into a collection, by default with the numbers from 1 and their own digests."""
        entries = _entries(vectors, ids, digests)
        self.in_collection(name, vectors.shape[1], lambda of, connection: of.put(connection, entries))

    def collected(self, name: str, vector: NDArray[np.float32]) -> list[FoundVector]:
        """All that a collection yields for a query."""
        return self.run(
            lambda connection: list(self.store.collection(name, len(vector)).nearest(connection, vector))
        )

    def digests(self, name: str, dimension: int) -> dict[int, bytes]:
        """The digests of a collection."""
        return self.run(lambda connection: dict(self.store.collection(name, dimension).digests(connection)))

    def rolled_back(self, name: str, vectors: NDArray[np.float32], *, ids: Sequence[int]) -> set[int]:
        """Put vectors into a collection and give it up; the numbers that were seen meanwhile."""
        from zeus_runtime.memory import records

        with self.engine.connect() as connection, connection.begin() as transaction:
            records.begin_write(connection)
            collection = self.store.collection(name, vectors.shape[1])
            collection.put(connection, _entries(vectors, ids, None))
            seen = {each.id for each in collection.nearest(connection, vectors[0])}
            transaction.rollback()
        return seen


def digest_of(number: int) -> bytes:
    """What the vector of a number is said to be made from."""
    return number.to_bytes(DIGEST_BYTES, "big")


def _entries(
    vectors: NDArray[np.float32], ids: Sequence[int] | None, digests: Sequence[bytes] | None
) -> CollectionEntries:
    numbers = list(ids or range(1, len(vectors) + 1))
    return CollectionEntries(numbers, digests or [digest_of(each) for each in numbers], vectors)


def _by_slots(parts: Sequence[AtHand], ids: Sequence[str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for part in parts:
        slots = part.slots(ids)
        cosines, bounds = part.cosines(slots[slots >= 0]), part.at_most()[slots[slots >= 0]]
        closer = part.at_most_of(slots[slots >= 0])
        assert (bounds >= closer).all()
        assert (closer >= cosines).all()
        here = [each for each, slot in zip(ids, slots, strict=True) if slot >= 0]
        assert {part.ids(0)[slot] for slot in slots if slot >= 0} == set(here)
        within = {each: cosine for each, cosine in zip(here, cosines.tolist(), strict=True) if cosine >= -2}
        assert not found.keys() & within.keys()
        found |= within
    return found


def _query(vector: NDArray[np.float32], caller: Caller, model: str = "model-a") -> VectorQuery:
    return VectorQuery(vector, Embedding(model, len(vector)), reach(caller, "read"), caller.user_id)


def some_item(
    item_id: str, scope: Scope = "user", scope_id: str = "ann", created_by: str = "ann", **more: Any
) -> MemoryItem:
    """A memory."""
    values = {"memory_type": "fact", **more}
    return MemoryItem(
        id=item_id,
        content=f"the text of {item_id}",
        scope=scope,
        scope_id=scope_id,
        created_by=created_by,
        source="user",
        confidence=1.0,
        created_at=_WHEN,
        updated_at=_WHEN,
        **values,
    )


def nearest_first(vectors: NDArray[np.float32], query: NDArray[np.float32]) -> list[str]:
    """``m0``, ``m1``, … by exact cosines, as nothing but arithmetic says."""
    import numpy as np

    cosines = np.asarray(vectors, np.float64) @ np.asarray(query, np.float64)
    return [f"m{number}" for number in np.argsort(-cosines, kind="stable")]
