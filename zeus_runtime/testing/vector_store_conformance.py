"""What every ``VectorStore`` must do, as tests that an author of a vector store plugin inherits.

    class TestMyStore(VectorStoreConformance):
        def store(self, folder):
            return MyStore(folder / "vectors")

The tests need pytest, and nothing else. The rows of the items are in the database before their vectors are put.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from zeus_runtime.memory.items import (
    MEMORY_TYPES,
    ROLES,
    VISIBILITIES,
    Caller,
    Embedding,
    MemoryItem,
    MemoryType,
    Scope,
)
from zeus_runtime.memory.permissions import may, reach
from zeus_runtime.memory.vectors import AtHand, Entry, VectorQuery, VectorStore

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from sqlalchemy import Connection, Engine

T = TypeVar("T")
_WHEN = datetime(2026, 1, 1, tzinfo=UTC)
_ANN = Caller("ann", "apollo", "owner", "s1")


class VectorStoreConformance:
    """Inherit it and say how to get the store; each ``test_`` method is one thing a store must do."""

    dimension: ClassVar[int] = 16
    tolerance: ClassVar[float] = 1e-5
    """How far a cosine may be from float64's."""

    def store(self, folder: Path) -> VectorStore:
        """The store; asked again with the same folder, one that finds what the former kept."""
        raise NotImplementedError

    def engine(self, folder: Path) -> Engine:
        """The database that the store is given connections of; a SQLite file by default."""
        from sqlalchemy import create_engine

        return create_engine(f"sqlite:///{folder / 'memory.db'}")

    def test_what_was_put_is_found_nearest_first(self) -> None:
        with self._opened() as kept:
            vectors = self._vectors(30)
            kept.put([(_item(f"m{number}"), vector) for number, vector in enumerate(vectors)])
            found = kept.nearest(vectors[7])
        assert found[0][0] == "m7"
        assert abs(found[0][1] - 1) < self.tolerance
        assert [each for each, _ in found] == _brute(vectors, vectors[7])
        assert all(first >= second for (_, first), (_, second) in pairwise(found))

    def test_every_cosine_is_exact(self) -> None:
        import numpy as np

        with self._opened() as kept:
            vectors = self._vectors(60, seed=3)
            kept.put([(_item(f"m{number}"), vector) for number, vector in enumerate(vectors)])
            for query in self._vectors(5, seed=4):
                true = np.asarray(vectors, np.float64) @ np.asarray(query, np.float64)
                found = dict(kept.nearest(query))
                assert found.keys() == {f"m{number}" for number in range(60)}
                assert all(abs(found[f"m{number}"] - true[number]) < self.tolerance for number in range(60))
                asked = kept.cosines(query, ["m3", "m59", "unknown"])
                assert asked.keys() == {"m3", "m59"}
                assert abs(asked["m59"] - true[59]) < self.tolerance

    def test_the_first_are_the_nearest_however_few_are_read(self) -> None:
        with self._opened() as kept:
            vectors = self._vectors(200, seed=5)
            kept.put([(_item(f"m{number}"), vector) for number, vector in enumerate(vectors)])
            for count in (1, 10, 150):
                found = kept.nearest(vectors[0], first=count)
                assert [each for each, _ in found] == _brute(vectors, vectors[0])[:count]

    def test_an_item_put_again_has_its_new_vector_alone(self) -> None:
        with self._opened() as kept:
            one, other = self._vectors(2)
            kept.put([(_item("m1"), one)])
            kept.nearest(one)
            kept.put([(_item("m1"), other)])
            assert [each for each, _ in kept.nearest(other)] == ["m1"]
            assert kept.nearest(other)[0][1] > 1 - self.tolerance
            assert kept.cosines(one, ["m1"])["m1"] < 1 - self.tolerance

    def test_what_was_removed_is_found_no_more(self) -> None:
        with self._opened() as kept:
            vectors = self._vectors(3)
            kept.put([(_item(f"m{number}"), vector) for number, vector in enumerate(vectors)])
            kept.nearest(vectors[0])
            kept.remove(["m0", "m2", "was never there"])
            assert [each for each, _ in kept.nearest(vectors[0])] == ["m1"]
            assert kept.cosines(vectors[0], ["m0", "m1"]).keys() == {"m1"}
            assert kept.ids() == {"m1"}
            kept.put([(_item("m2"), vectors[2])])
            assert {each for each, _ in kept.nearest(vectors[0])} == {"m1", "m2"}

    def test_nothing_kept_and_nothing_in_reach_is_nothing_found(self) -> None:
        with self._opened() as kept:
            (vector,) = self._vectors(1)
            assert kept.nearest(vector) == []
            assert kept.ids() == set()
            kept.put([(_item("m1"), vector)])
            assert kept.nearest(vector, caller=Caller("")) == []
            assert kept.cosines(vector, ["m1"], caller=Caller("bob")) == {}

    def test_vectors_of_another_model_or_dimension_are_never_compared(self) -> None:
        with self._opened() as kept:
            one, other, third = self._vectors(3)
            short = self._vectors(1, dimension=self.dimension // 2)[0]
            kept.put([(_item("m1"), one)])
            kept.put([(_item("m2"), other)], model="other")
            kept.put([(_item("m3"), short)])
            assert [each for each, _ in kept.nearest(third)] == ["m1"]
            assert [each for each, _ in kept.nearest(third, model="other")] == ["m2"]
            assert [each for each, _ in kept.nearest(short)] == ["m3"]
            assert kept.cosines(third, ["m1", "m2", "m3"]).keys() == {"m1"}

    def test_an_item_that_changes_its_model_is_with_the_new_one_only(self) -> None:
        with self._opened() as kept:
            one, other = self._vectors(2)
            kept.put([(_item("m1"), one)])
            kept.nearest(one)
            kept.put([(_item("m1"), other)], model="other")
            assert kept.nearest(one) == []
            assert [each for each, _ in kept.nearest(one, model="other")] == ["m1"]

    def test_only_the_type_asked_for_is_found(self) -> None:
        with self._opened() as kept:
            vectors = self._vectors(len(MEMORY_TYPES))
            kept.put(
                [
                    (_item(each, memory_type=each), vector)
                    for each, vector in zip(MEMORY_TYPES, vectors, strict=True)
                ]
            )
            for each in MEMORY_TYPES:
                assert [found for found, _ in kept.nearest(vectors[0], memory_type=each)] == [each]

    def test_each_caller_finds_what_they_may_read_and_nothing_else(self) -> None:
        places: list[tuple[Scope, str]] = [
            ("user", "ann"),
            ("user", "bob"),
            ("project", "apollo"),
            ("project", "gemini"),
            ("session", "s1"),
            ("session", "s2"),
        ]
        items = [
            _item(f"{scope}-{scope_id}-{owner}-{visibility}", scope, scope_id, owner, visibility=visibility)
            for scope, scope_id in places
            for owner in ("ann", "bob")
            for visibility in VISIBILITIES
        ]
        with self._opened() as kept:
            vectors = self._vectors(len(items), seed=8)
            kept.put(list(zip(items, vectors, strict=True)))
            callers = [
                Caller(user, project, role, session)
                for user in ("ann", "bob", "eve")
                for project in (None, "apollo", "gemini")
                for role in (None, *ROLES)
                for session in (None, "s1")
            ]
            for caller in callers:
                allowed = {item.id for item in items if may(caller, "read", item)}
                assert {each for each, _ in kept.nearest(vectors[0], caller=caller)} == allowed, caller
                everything = [item.id for item in items]
                assert kept.cosines(vectors[0], everything, caller=caller).keys() == allowed, caller

    def test_an_item_put_again_elsewhere_is_there_alone(self) -> None:
        with self._opened() as kept:
            (vector,) = self._vectors(1)
            bob = Caller("bob", "apollo", "viewer")
            kept.put([(_item("m1", "project", "apollo"), vector)])
            assert [each for each, _ in kept.nearest(vector, caller=bob)] == ["m1"]
            kept.put([(_item("m1", "project", "apollo", visibility="owner_only"), vector)])
            assert kept.nearest(vector, caller=bob) == []
            assert [each for each, _ in kept.nearest(vector)] == ["m1"]

    def test_what_is_less_near_than_asked_for_is_the_only_thing_left_out(self) -> None:
        with self._opened() as kept:
            vectors = self._vectors(100, seed=11)
            kept.put([(_item(f"m{number}"), vector) for number, vector in enumerate(vectors)])
            whole = kept.nearest(vectors[0])
            near = [each for each, cosine in whole if cosine >= 0.3]
            found = [each for each, _ in kept.nearest(vectors[0], at_least=0.3)]
            assert found[: len(near)] == near

    def test_many_vectors_are_searched_exactly(self) -> None:
        with self._opened() as kept:
            vectors = self._vectors(3_000, seed=12, dimension=160)
            kept.put([(_item(f"m{number}"), vector) for number, vector in enumerate(vectors)])
            for query in (vectors[5], self._vectors(1, seed=13, dimension=160)[0]):
                for count in (10, 400):
                    found = kept.nearest(query, first=count)
                    best = _brute(vectors, query)[: count + 5]
                    assert {each for each, _ in found} <= set(best)
                    assert [each for each, _ in found][:5] == best[:5]

    def test_a_store_in_the_transaction_goes_back_with_it(self) -> None:
        with self._opened() as kept:
            if not kept.store.transactional:
                _skip("the store is not in the transaction")
            one, other, third = self._vectors(3)
            kept.put([(_item("m1"), one)])
            kept.nearest(one)
            kept.roll_back([(_item("m2"), other)], remove=["m1"], query=one)
            assert [each for each, _ in kept.nearest(one)] == ["m1"]
            assert kept.ids() == {"m1"}
            kept.put([(_item("m3"), third)])
            assert {each for each, _ in kept.nearest(one)} == {"m1", "m3"}

    def test_another_store_on_the_same_place_sees_every_change(self) -> None:
        with self._opened() as kept:
            if not kept.store.transactional:
                _skip("one process at a time")
            vectors = self._vectors(4)
            with kept.again() as other:
                for number, vector in enumerate(vectors):
                    kept.put([(_item(f"m{number}"), vector)])
                    assert len(other.nearest(vector)) == number + 1
                other.remove(["m1"])
                assert {each for each, _ in kept.nearest(vectors[0])} == {"m0", "m2", "m3"}
                other.put([(_item("m0"), vectors[3])])
                assert kept.cosines(vectors[3], ["m0"])["m0"] > 1 - self.tolerance

    def test_what_was_put_is_there_after_reopening(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            one, other = self._vectors(2)
            with self._opened(Path(name)) as kept:
                kept.put([(_item("m1"), one), (_item("m2"), other)])
                kept.remove(["m2"])
            with self._opened(Path(name)) as kept:
                assert [each for each, _ in kept.nearest(one)] == ["m1"]
                assert kept.ids() == {"m1"}

    @contextmanager
    def _opened(self, folder: Path | None = None) -> Iterator[_Kept]:
        if folder is None:
            with tempfile.TemporaryDirectory() as name, self._opened(Path(name)) as kept:
                yield kept
            return
        from zeus_runtime.memory.records import begin_write
        from zeus_runtime.store.memory_tables import create_memory_tables

        engine = self.engine(folder)
        store = self.store(folder)
        kept = _Kept(store, engine, lambda: self._opened(folder))

        def prepare(connection: Connection) -> None:
            begin_write(connection)
            create_memory_tables(connection)
            store.prepare(connection)
            store.prepare(connection)

        try:
            kept.run(prepare)
            yield kept
        finally:
            store.close()
            engine.dispose()

    def _vectors(self, count: int, *, seed: int = 1, dimension: int | None = None) -> NDArray[np.float32]:
        import numpy as np

        found = np.random.default_rng(seed).standard_normal((count, dimension or self.dimension))
        return np.asarray(found / np.linalg.norm(found, axis=1, keepdims=True), np.float32)


@dataclass(frozen=True)
class _Kept:
    """A store and the database it is given connections of."""

    store: VectorStore
    engine: Engine
    again: Callable[[], Any]

    def run(self, work: Callable[[Connection], T]) -> T:
        with self.engine.connect() as connection, connection.begin():
            return work(connection)

    def put(self, pairs: Sequence[tuple[MemoryItem, NDArray[np.float32]]], *, model: str = "model-a") -> None:
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
            seen = {each for each, _ in self.store.nearest(connection, _query(query, _ANN))}
            transaction.rollback()
        assert seen == {item.id for item, _ in pairs}, "a transaction sees what it wrote itself"

    def remove(self, ids: Sequence[str]) -> None:
        from zeus_runtime.memory import records

        def work(connection: Connection) -> None:
            records.begin_write(connection)
            self.store.remove(connection, ids)

        self.run(work)

    def nearest(
        self,
        vector: NDArray[np.float32],
        *,
        caller: Caller = _ANN,
        model: str = "model-a",
        memory_type: MemoryType | None = None,
        first: int | None = None,
        at_least: float = -1.0,
    ) -> list[tuple[str, float]]:
        query = replace(_query(vector, caller, model), memory_type=memory_type, at_least=at_least)
        return self.run(lambda connection: list(islice(self.store.nearest(connection, query), first)))

    def cosines(
        self, vector: NDArray[np.float32], ids: Sequence[str], *, caller: Caller = _ANN
    ) -> dict[str, float]:
        """The cosines; where the store has its vectors at hand, it says the same of them by slots."""

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
        return self.run(self.store.ids)


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


_ROUNDING: Final = 1e-5


def _query(vector: NDArray[np.float32], caller: Caller, model: str = "model-a") -> VectorQuery:
    return VectorQuery(vector, Embedding(model, len(vector)), reach(caller, "read"), caller.user_id)


def _item(
    item_id: str, scope: Scope = "user", scope_id: str = "ann", created_by: str = "ann", **more: Any
) -> MemoryItem:
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


def _brute(vectors: NDArray[np.float32], query: NDArray[np.float32]) -> list[str]:
    import numpy as np

    cosines = np.asarray(vectors, np.float64) @ np.asarray(query, np.float64)
    return [f"m{number}" for number in np.argsort(-cosines, kind="stable")]


def _skip(why: str) -> None:
    import pytest

    pytest.skip(why)
