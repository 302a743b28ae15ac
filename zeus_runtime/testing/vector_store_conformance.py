"""What every ``VectorStore`` must do, as tests that an author of a vector store plugin inherits.

    class TestMyStore(VectorStoreConformance):
        def store(self, folder):
            return MyStore(folder / "vectors")

The tests need pytest, and nothing else. The rows of the items are in the database before their vectors are put.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from zeus_runtime.memory.items import (
    MEMORY_TYPES,
    ROLES,
    VISIBILITIES,
    Caller,
    Scope,
)
from zeus_runtime.memory.permissions import may
from zeus_runtime.memory.vectors import VectorStore
from zeus_runtime.testing.store_in_use import (
    StoreInUse,
    digest_of,
    nearest_first,
    opened,
    some_item,
    unit_vectors,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from sqlalchemy import Engine


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
            kept.put([(some_item(f"m{number}"), vector) for number, vector in enumerate(vectors)])
            found = kept.nearest(vectors[7])
        assert found[0][0] == "m7"
        assert abs(found[0][1] - 1) < self.tolerance
        assert [each for each, _ in found] == nearest_first(vectors, vectors[7])
        assert all(first >= second for (_, first), (_, second) in pairwise(found))

    def test_every_cosine_is_exact(self) -> None:
        import numpy as np

        with self._opened() as kept:
            vectors = self._vectors(60, seed=3)
            kept.put([(some_item(f"m{number}"), vector) for number, vector in enumerate(vectors)])
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
            kept.put([(some_item(f"m{number}"), vector) for number, vector in enumerate(vectors)])
            for count in (1, 10, 150):
                found = kept.nearest(vectors[0], first=count)
                assert [each for each, _ in found] == nearest_first(vectors, vectors[0])[:count]

    def test_an_item_put_again_has_its_new_vector_alone(self) -> None:
        with self._opened() as kept:
            one, other = self._vectors(2)
            kept.put([(some_item("m1"), one)])
            kept.nearest(one)
            kept.put([(some_item("m1"), other)])
            assert [each for each, _ in kept.nearest(other)] == ["m1"]
            assert kept.nearest(other)[0][1] > 1 - self.tolerance
            assert kept.cosines(one, ["m1"])["m1"] < 1 - self.tolerance

    def test_what_was_removed_is_found_no_more(self) -> None:
        with self._opened() as kept:
            vectors = self._vectors(3)
            kept.put([(some_item(f"m{number}"), vector) for number, vector in enumerate(vectors)])
            kept.nearest(vectors[0])
            kept.remove(["m0", "m2", "was never there"])
            assert [each for each, _ in kept.nearest(vectors[0])] == ["m1"]
            assert kept.cosines(vectors[0], ["m0", "m1"]).keys() == {"m1"}
            assert kept.ids() == {"m1"}
            kept.put([(some_item("m2"), vectors[2])])
            assert {each for each, _ in kept.nearest(vectors[0])} == {"m1", "m2"}

    def test_nothing_kept_and_nothing_in_reach_is_nothing_found(self) -> None:
        with self._opened() as kept:
            (vector,) = self._vectors(1)
            assert kept.nearest(vector) == []
            assert kept.ids() == set()
            kept.put([(some_item("m1"), vector)])
            assert kept.nearest(vector, caller=Caller("")) == []
            assert kept.cosines(vector, ["m1"], caller=Caller("bob")) == {}

    def test_vectors_of_another_model_or_dimension_are_never_compared(self) -> None:
        with self._opened() as kept:
            one, other, third = self._vectors(3)
            short = self._vectors(1, dimension=self.dimension // 2)[0]
            kept.put([(some_item("m1"), one)])
            kept.put([(some_item("m2"), other)], model="other")
            kept.put([(some_item("m3"), short)])
            assert [each for each, _ in kept.nearest(third)] == ["m1"]
            assert [each for each, _ in kept.nearest(third, model="other")] == ["m2"]
            assert [each for each, _ in kept.nearest(short)] == ["m3"]
            assert kept.cosines(third, ["m1", "m2", "m3"]).keys() == {"m1"}

    def test_an_item_that_changes_its_model_is_with_the_new_one_only(self) -> None:
        with self._opened() as kept:
            one, other = self._vectors(2)
            kept.put([(some_item("m1"), one)])
            kept.nearest(one)
            kept.put([(some_item("m1"), other)], model="other")
            assert kept.nearest(one) == []
            assert [each for each, _ in kept.nearest(one, model="other")] == ["m1"]

    def test_only_the_type_asked_for_is_found(self) -> None:
        with self._opened() as kept:
            vectors = self._vectors(len(MEMORY_TYPES))
            kept.put(
                [
                    (some_item(each, memory_type=each), vector)
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
            some_item(
                f"{scope}-{scope_id}-{owner}-{visibility}", scope, scope_id, owner, visibility=visibility
            )
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
            kept.put([(some_item("m1", "project", "apollo"), vector)])
            assert [each for each, _ in kept.nearest(vector, caller=bob)] == ["m1"]
            kept.put([(some_item("m1", "project", "apollo", visibility="owner_only"), vector)])
            assert kept.nearest(vector, caller=bob) == []
            assert [each for each, _ in kept.nearest(vector)] == ["m1"]

    def test_what_is_less_near_than_asked_for_is_the_only_thing_left_out(self) -> None:
        with self._opened() as kept:
            vectors = self._vectors(100, seed=11)
            kept.put([(some_item(f"m{number}"), vector) for number, vector in enumerate(vectors)])
            whole = kept.nearest(vectors[0])
            near = [each for each, cosine in whole if cosine >= 0.3]
            found = [each for each, _ in kept.nearest(vectors[0], at_least=0.3)]
            assert found[: len(near)] == near

    def test_many_vectors_are_searched_exactly(self) -> None:
        with self._opened() as kept:
            vectors = self._vectors(3_000, seed=12, dimension=160)
            kept.put([(some_item(f"m{number}"), vector) for number, vector in enumerate(vectors)])
            for query in (vectors[5], self._vectors(1, seed=13, dimension=160)[0]):
                for count in (10, 400):
                    found = kept.nearest(query, first=count)
                    best = nearest_first(vectors, query)[: count + 5]
                    assert {each for each, _ in found} <= set(best)
                    assert [each for each, _ in found][:5] == best[:5]

    def test_no_vector_is_lost_among_many_that_are_alike(self) -> None:
        import numpy as np

        with self._opened() as kept:
            # Texts that differ in one word have such vectors; a graph of neighbours may have no link to some of them.
            vectors = self._vectors(60, seed=14, dimension=160)
            vectors[3:] = vectors[3] + 0.3 * vectors[3:]
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
            kept.put([(some_item(f"m{number}"), vector) for number, vector in enumerate(vectors)])
            kept.fill("kb-first", vectors)
            for query in (vectors[0], vectors[40]):
                assert [each for each, _ in kept.nearest(query)] == nearest_first(vectors, query)
                found = kept.collected("kb-first", query)
                assert [f"m{each.id - 1}" for each in found] == nearest_first(vectors, query)

    def test_a_store_in_the_transaction_goes_back_with_it(self) -> None:
        with self._opened() as kept:
            if not kept.store.transactional:
                _skip("the store is not in the transaction")
            one, other, third = self._vectors(3)
            kept.put([(some_item("m1"), one)])
            kept.nearest(one)
            kept.roll_back([(some_item("m2"), other)], remove=["m1"], query=one)
            assert [each for each, _ in kept.nearest(one)] == ["m1"]
            assert kept.ids() == {"m1"}
            kept.put([(some_item("m3"), third)])
            assert {each for each, _ in kept.nearest(one)} == {"m1", "m3"}

    def test_another_store_on_the_same_place_sees_every_change(self) -> None:
        with self._opened() as kept:
            if not kept.store.transactional:
                _skip("one process at a time")
            vectors = self._vectors(4)
            with kept.again() as other:
                for number, vector in enumerate(vectors):
                    kept.put([(some_item(f"m{number}"), vector)])
                    assert len(other.nearest(vector)) == number + 1
                other.remove(["m1"])
                assert {each for each, _ in kept.nearest(vectors[0])} == {"m0", "m2", "m3"}
                other.put([(some_item("m0"), vectors[3])])
                assert kept.cosines(vectors[3], ["m0"])["m0"] > 1 - self.tolerance

    def test_what_was_put_is_there_after_reopening(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            one, other = self._vectors(2)
            with self._opened(Path(name)) as kept:
                kept.put([(some_item("m1"), one), (some_item("m2"), other)])
                kept.remove(["m2"])
            with self._opened(Path(name)) as kept:
                assert [each for each, _ in kept.nearest(one)] == ["m1"]
                assert kept.ids() == {"m1"}

    def test_a_collection_yields_what_was_put_nearest_first(self) -> None:
        import numpy as np

        with self._opened() as kept:
            vectors = self._vectors(150, seed=21)
            kept.fill("kb-first", vectors)
            for query in self._vectors(3, seed=22):
                true = np.asarray(vectors, np.float64) @ np.asarray(query, np.float64)
                found = kept.collected("kb-first", query)
                assert [each.id for each in found] == [int(place) + 1 for place in np.argsort(-true)]
                assert all(abs(each.cosine - true[each.id - 1]) < self.tolerance for each in found)
                assert all(each.digest == digest_of(each.id) for each in found)

    def test_collections_know_nothing_of_each_other_nor_of_memories(self) -> None:
        with self._opened() as kept:
            one, other = self._vectors(2)
            short = self._vectors(1, dimension=self.dimension // 2)
            assert kept.collected("kb-first", one) == []
            kept.put([(some_item("m1"), one)])
            kept.fill("kb-first", self._vectors(2))
            kept.fill("kb-other", short)
            assert kept.ids() == {"m1"}
            assert [each for each, _ in kept.nearest(one)] == ["m1"]
            assert {each.id for each in kept.collected("kb-first", one)} == {1, 2}
            assert [each.id for each in kept.collected("kb-other", short[0])] == [1]
            kept.in_collection("kb-first", self.dimension, lambda of, connection: of.drop(connection))
            kept.in_collection("kb-first", self.dimension, lambda of, connection: of.drop(connection))
            assert kept.collected("kb-first", other) == []
            assert kept.digests("kb-first", self.dimension) == {}
            assert [each.id for each in kept.collected("kb-other", short[0])] == [1]
            assert kept.ids() == {"m1"}
            kept.fill("kb-first", self._vectors(1))
            assert [each.id for each in kept.collected("kb-first", one)] == [1]

    def test_a_collection_s_vectors_are_removed_and_replaced_by_their_numbers(self) -> None:
        with self._opened() as kept:
            vectors = self._vectors(300, seed=23)
            kept.fill("kb-first", vectors)
            kept.collected("kb-first", vectors[0])
            gone = [*range(60, 130), 300, 9_999]
            kept.in_collection("kb-first", self.dimension, lambda of, connection: of.remove(connection, gone))
            left = set(range(1, 301)) - set(gone)
            assert {each.id for each in kept.collected("kb-first", vectors[0])} == left
            kept.fill("kb-first", vectors[70:72], ids=[1, 70], digests=[digest_of(7), digest_of(8)])
            found = {each.id: each for each in kept.collected("kb-first", vectors[70])}
            assert found.keys() == left | {70}
            assert found[1].cosine > 1 - self.tolerance
            assert (found[1].digest, found[70].digest) == (digest_of(7), digest_of(8))

    def test_a_collection_tells_what_its_vectors_were_made_from(self) -> None:
        import numpy as np

        many = 2**40
        with self._opened() as kept:
            vectors = self._vectors(4)
            kept.fill("kb-first", vectors, ids=[3, many, 1, 2])
            kept.in_collection("kb-first", self.dimension, lambda of, connection: of.remove(connection, [2]))
            expected = {3: digest_of(3), many: digest_of(many), 1: digest_of(1)}
            assert kept.digests("kb-first", self.dimension) == expected
            size = kept.in_collection("kb-first", self.dimension, lambda of, connection: of.size(connection))
            assert size == len(expected)
            found = kept.in_collection(
                "kb-first", self.dimension, lambda of, connection: of.read(connection, [1, many, 77])
            )
            assert dict(zip(found.ids, found.digests, strict=True)) == {
                1: digest_of(1),
                many: digest_of(many),
            }
            rows = dict(zip(found.ids, found.vectors, strict=True))
            assert np.allclose(rows[1], vectors[2], atol=self.tolerance)
            assert np.allclose(rows[many], vectors[1], atol=self.tolerance)
            nothing = kept.in_collection(
                "kb-none", self.dimension, lambda of, connection: of.read(connection, [1])
            )
            assert len(nothing.ids) == len(nothing.vectors) == 0

    def test_a_collection_is_there_after_reopening(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            vectors = self._vectors(3)
            with self._opened(Path(name)) as kept:
                kept.fill("kb-first", vectors)
            with self._opened(Path(name)) as kept:
                assert {each.id for each in kept.collected("kb-first", vectors[0])} == {1, 2, 3}
                assert kept.digests("kb-first", self.dimension).keys() == {1, 2, 3}

    def test_a_collection_in_the_transaction_goes_back_with_it(self) -> None:
        with self._opened() as kept:
            if not kept.store.transactional:
                _skip("the store is not in the transaction")
            vectors = self._vectors(4)
            kept.fill("kb-first", vectors[:2])
            kept.collected("kb-first", vectors[0])
            kept.collected("kb-first", vectors[0])
            assert kept.rolled_back("kb-first", vectors[2:], ids=[2, 3]) == {1, 2, 3}
            found = {each.id: each.cosine for each in kept.collected("kb-first", vectors[1])}
            assert found.keys() == {1, 2}
            assert found[2] > 1 - self.tolerance
            kept.rolled_back("kb-first", vectors[2:], ids=[2, 3])
            kept.fill("kb-first", vectors[3:], ids=[4])
            found = {each.id: each.cosine for each in kept.collected("kb-first", vectors[1])}
            assert found.keys() == {1, 2, 4}
            assert found[2] > 1 - self.tolerance

    def test_another_store_on_the_same_place_sees_every_change_of_a_collection(self) -> None:
        with self._opened() as kept:
            if not kept.store.transactional:
                _skip("one process at a time")
            vectors = self._vectors(4)
            with kept.again() as other:
                for number, vector in enumerate(vectors, 1):
                    kept.fill("kb-first", vector[None], ids=[number])
                    for each in (kept, other):
                        assert len(each.collected("kb-first", vector)) == number
                other.in_collection(
                    "kb-first", self.dimension, lambda of, connection: of.remove(connection, [2])
                )
                assert {each.id for each in kept.collected("kb-first", vectors[0])} == {1, 3, 4}
                other.fill("kb-first", vectors[3:], ids=[1])
                found = {each.id: each.cosine for each in kept.collected("kb-first", vectors[3])}
                assert found.keys() == {1, 3, 4}
                assert found[1] > 1 - self.tolerance

    @contextmanager
    def _opened(self, folder: Path | None = None) -> Iterator[StoreInUse]:
        with (
            tempfile.TemporaryDirectory() as name,
            opened(folder or Path(name), self.store, self.engine) as kept,
        ):
            yield kept

    def _vectors(self, count: int, *, seed: int = 1, dimension: int | None = None) -> NDArray[np.float32]:
        return unit_vectors(count, dimension=dimension or self.dimension, seed=seed)


def _skip(why: str) -> None:
    import pytest

    pytest.skip(why)
