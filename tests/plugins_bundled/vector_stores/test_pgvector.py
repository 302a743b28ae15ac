"""The vector store `pgvector` on a real server: what every store does, HNSW, and what is missing."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from sqlalchemy import Connection, create_engine, text
from zeus_plugins import catalogue
from zeus_plugins.vector_stores.pgvector.copies import PATIENCE, Copies
from zeus_plugins.vector_stores.pgvector.options import Options
from zeus_plugins.vector_stores.pgvector.store import FIRST, PgVectorStore

from tests.support.databases import database_on, execute
from zeus_runtime import MissingError
from zeus_runtime.memory import records
from zeus_runtime.memory.items import Caller, Embedding, MemoryItem
from zeus_runtime.memory.permissions import reach
from zeus_runtime.plugin.vector_store import Entry, VectorQuery, VectorStore
from zeus_runtime.store.knowledge_tables import create_knowledge_tables
from zeus_runtime.store.memory_tables import create_memory_tables
from zeus_runtime.store.postgres import connection_arguments, driver_url
from zeus_runtime.testing import VectorStoreConformance
from zeus_runtime.testing.store_in_use import some_item

if TYPE_CHECKING:
    from sqlalchemy import Engine


def engine_of(url: str) -> Engine:
    return create_engine(driver_url(url), connect_args=connection_arguments(url), use_native_hstore=False)


def with_extension(url: str) -> str:
    execute(url, "CREATE EXTENSION IF NOT EXISTS vector")
    return url


class OnServer(VectorStoreConformance):
    """Each folder of a test is a database."""

    options = Options()

    @pytest.fixture(autouse=True)
    def _server(self, postgres_server: str) -> Iterator[None]:
        self._databases: dict[Path, tuple[str, Any]] = {}
        self._url = postgres_server
        yield
        for _, database in self._databases.values():
            database.__exit__(None, None, None)

    def store(self, folder: Path) -> VectorStore:
        return PgVectorStore(self.options)

    def engine(self, folder: Path) -> Engine:
        if folder not in self._databases:
            database = database_on(self._url)
            self._databases[folder] = (with_extension(database.__enter__()), database)
        return engine_of(self._databases[folder][0])


class TestPgVectorStore(OnServer):
    pass


def test_it_is_registered_as_pgvector() -> None:
    (component,) = catalogue.vector_stores.pgvector.register_vector_stores()
    assert component.name == "pgvector"


def test_another_database_is_refused_with_what_to_do() -> None:
    with create_engine("sqlite://").connect() as connection, pytest.raises(MissingError) as caught:
        PgVectorStore().prepare(connection)
    assert "memory.vector_store to sqlite" in str(caught.value.remedy)


def test_a_database_without_the_extension_says_what_a_superuser_has_to_do(postgres_url: str) -> None:
    with engine_of(postgres_url).connect() as connection, pytest.raises(MissingError) as caught:
        PgVectorStore().prepare(connection)
    assert caught.value.exit_code == 4
    assert "pgvector" in caught.value.message
    assert "no extension 'vector'" in caught.value.message
    assert "CREATE EXTENSION vector" in str(caught.value.remedy)


@pytest.fixture
def filled(postgres_url: str) -> Iterator[tuple[Connection, np.ndarray[Any, Any]]]:
    """1,200 vectors of ann and, in the same index, 300 of bob; a connection in a transaction."""
    engine = engine_of(with_extension(postgres_url))
    store = PgVectorStore()
    vectors = made(1_500)
    with engine.connect() as connection, connection.begin():
        create_memory_tables(connection)
        create_knowledge_tables(connection)
        store.prepare(connection)
        items = [some_item(f"m{number}") for number in range(1_200)]
        items += [some_item(f"b{number}", scope_id="bob", created_by="bob") for number in range(300)]
        place = records.changed(connection, records.lock_place(connection, "user", "ann"))
        for item in items:
            records.write(connection, item, place)
        store.put(connection, entries(items, vectors))
    with engine.connect() as connection:
        connection.execute(text("ANALYZE memory_vector_pg"))
        connection.commit()
        PgVectorStore(Options(exact="never")).index(connection)
        with connection.begin():
            yield connection, vectors
    engine.dispose()


def made(count: int, seed: int = 1) -> np.ndarray[Any, Any]:
    found = np.random.default_rng(seed).standard_normal((count, 32))
    return np.asarray(found / np.linalg.norm(found, axis=1, keepdims=True), np.float32)


def entries(items: list[MemoryItem], vectors: np.ndarray[Any, Any]) -> list[Entry]:
    return [
        Entry(item, Embedding("model-a", 32), vector) for item, vector in zip(items, vectors, strict=True)
    ]


def asked(vector: np.ndarray[Any, Any], user: str = "ann", at_least: float = -1.0) -> VectorQuery:
    return VectorQuery(vector, Embedding("model-a", 32), reach(Caller(user), "read"), user, at_least=at_least)


def truth(vectors: np.ndarray[Any, Any], query: np.ndarray[Any, Any], start: int, end: int) -> list[int]:
    return [int(each) for each in np.argsort(-(vectors[start:end] @ query), kind="stable")]


def test_by_hnsw_the_nearest_are_found_in_order_and_everything_comes_in_the_end(
    filled: tuple[Connection, np.ndarray[Any, Any]],
) -> None:
    connection, vectors = filled
    store = PgVectorStore(Options(exact="never"))
    store.prepare(connection)
    found_of_best = 0
    for query in made(10, seed=5):
        found = list(store.nearest(connection, asked(query)))
        assert sorted(each for each, _ in found) == sorted(f"m{number}" for number in range(1_200))
        best = {f"m{number}" for number in truth(vectors, query, 0, 1_200)[:50]}
        found_of_best += len(best & {each for each, _ in found[:50]})
        first = [cosine for _, cosine in found[:100]]
        assert first == sorted(first, reverse=True)
    assert found_of_best >= 0.95 * 500


def test_by_hnsw_a_small_part_of_the_index_is_found_whole(
    filled: tuple[Connection, np.ndarray[Any, Any]],
) -> None:
    connection, vectors = filled
    store = PgVectorStore(Options(exact="never", ef_search=40))
    store.prepare(connection)
    found_of_best = 0
    for query in made(10, seed=6):
        found = [each for each, _ in islice(store.nearest(connection, asked(query, "bob")), 20)]
        best = {f"b{number}" for number in truth(vectors, query, 1_200, 1_500)[:20]}
        assert len(found) == 20
        found_of_best += len(best & set(found))
    assert found_of_best >= 0.9 * 200


def test_the_graph_is_asked_only_where_it_pays(filled: tuple[Connection, np.ndarray[Any, Any]]) -> None:
    connection, vectors = filled
    PgVectorStore(Options(exact="never")).prepare(connection)

    def sources(options: Options, user: str = "ann") -> bool:
        store = PgVectorStore(options)
        store.prepare(connection)
        seen: list[str] = []
        store._by_graph = lambda *_: iter(seen.append("graph") or ())  # type: ignore[assignment, method-assign, func-returns-value]
        list(islice(store.nearest(connection, asked(vectors[0], user)), 5))
        return bool(seen)

    assert sources(Options(exact="never"))
    assert not sources(Options(exact="always"))
    assert not sources(Options(exact="auto"))
    assert not sources(Options(exact="auto", exact_up_to=1_300))
    assert not sources(Options(exact="auto", exact_up_to=100), "bob")


def test_the_plan_of_the_graph_walks_the_index(
    filled: tuple[Connection, np.ndarray[Any, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    connection, vectors = filled
    store = PgVectorStore(Options(exact="never"))
    store.prepare(connection)
    before = connection.execute(text("SELECT current_setting('enable_sort')")).scalar()
    scans = text(
        "SELECT pg_stat_get_xact_numscans(indexrelid) FROM pg_stat_all_indexes"
        " WHERE indexrelname = 'memory_vector_pg_hnsw_32'"
    )
    start = connection.execute(scans).scalar()
    list(islice(store.nearest(connection, asked(vectors[3])), 10))
    assert connection.execute(scans).scalar() == start + 1
    assert connection.execute(text("SELECT current_setting('enable_sort')")).scalar() == before


def test_reading_on_over_the_first_block_keeps_the_order(
    filled: tuple[Connection, np.ndarray[Any, Any]],
) -> None:
    connection, vectors = filled
    store = PgVectorStore()
    store.prepare(connection)
    found = [each for each, _ in store.nearest(connection, asked(vectors[3]))]
    assert len(found) > FIRST * 8
    assert found == [f"m{number}" for number in truth(vectors, vectors[3], 0, 1_200)]


def test_texts_without_any_direction_have_the_cosine_zero(
    filled: tuple[Connection, np.ndarray[Any, Any]],
) -> None:
    connection, vectors = filled
    store = PgVectorStore()
    store.put(connection, entries([some_item("m0")], np.zeros((1, 32), np.float32)))
    found = dict(store.nearest(connection, asked(vectors[5])))
    assert found["m0"] == 0
    assert list(found.values()) == sorted(found.values(), reverse=True)


def test_a_vector_goes_with_its_row(filled: tuple[Connection, np.ndarray[Any, Any]]) -> None:
    connection, _ = filled
    connection.execute(text("DELETE FROM memory_item WHERE id = 'm0'"))
    assert "m0" not in PgVectorStore().ids(connection)


def test_vectors_too_long_for_the_graph_are_compared(postgres_url: str) -> None:
    engine = engine_of(with_extension(postgres_url))
    store = PgVectorStore(Options(exact="never"))
    long = np.zeros((1, 3_072), np.float32)
    long[0, 5] = 1
    with engine.connect() as connection, connection.begin():
        create_memory_tables(connection)
        create_knowledge_tables(connection)
        store.prepare(connection)
        place = records.changed(connection, records.lock_place(connection, "user", "ann"))
        records.write(connection, some_item("m1"), place)
        store.put(connection, [Entry(some_item("m1"), Embedding("large", 3_072), long[0])])
    with engine.connect() as connection, connection.begin():
        store.prepare(connection)
        query = VectorQuery(long[0], Embedding("large", 3_072), reach(Caller("ann"), "read"), "ann")
        assert list(store.nearest(connection, query)) == [("m1", 1.0)]
    engine.dispose()


def by_copies(store: PgVectorStore, connection: Connection, query: VectorQuery) -> dict[str, float]:
    """What a copy in the process gives; the transaction ends."""
    with connection.begin():
        found = store._copies_of(connection, query)
        assert found is not None
        return dict(found.nearest())


def by_server(connection: Connection, query: VectorQuery) -> dict[str, float]:
    with connection.begin():
        return dict(PgVectorStore(Options(exact="always", kept_mb=0)).nearest(connection, query))


@pytest.fixture
def two(postgres_url: str) -> Iterator[tuple[Connection, Connection]]:
    """Two connections to an empty database, as two processes have them."""
    engine = engine_of(with_extension(postgres_url))
    with engine.connect() as connection, connection.begin():
        create_memory_tables(connection)
        create_knowledge_tables(connection)
        PgVectorStore().prepare(connection)
    with engine.connect() as one, engine.connect() as other:
        yield one, other
    engine.dispose()


def put(connection: Connection, name: str, vector: np.ndarray[Any, Any], user: str = "ann") -> None:
    item = some_item(name, scope_id=user, created_by=user)
    place = records.changed(connection, records.lock_place(connection, "user", user))
    connection.execute(text("DELETE FROM memory_item WHERE id = :id"), {"id": name})
    records.write(connection, item, place)
    PgVectorStore().put(connection, entries([item], vector[None]))


def asked_before(store: PgVectorStore, connection: Connection, query: VectorQuery) -> None:
    for _ in range(PATIENCE):
        with connection.begin():
            list(store.nearest(connection, query))


def test_a_copy_sees_what_other_processes_put_change_and_remove(two: tuple[Connection, Connection]) -> None:
    mine, others = two
    vectors, query = made(60), asked(made(1, seed=9)[0])
    reader = PgVectorStore()
    asked_before(reader, mine, query)
    choose = random.Random(4)
    names = [f"m{number}" for number in range(20)]
    for step, vector in enumerate(vectors):
        name = choose.choice(names)
        with others.begin():
            match step % 3:
                case 0 | 1:
                    put(others, name, vector, choose.choice(["ann", "ann", "bob"]))
                case 2:
                    others.execute(text("DELETE FROM memory_item WHERE id = :id"), {"id": name})
        found, true = by_copies(reader, mine, query), by_server(mine, query)
        assert found.keys() == true.keys()
        assert all(abs(found[each] - true[each]) < 1e-6 for each in true)


def test_a_copy_never_has_what_was_rolled_back(two: tuple[Connection, Connection]) -> None:
    mine, _ = two
    vectors, query = made(2), asked(made(1, seed=9)[0])
    store = PgVectorStore()
    with mine.begin():
        put(mine, "kept", vectors[0])
    asked_before(store, mine, query)
    transaction = mine.begin()
    item = some_item("lost")
    records.write(mine, item, records.lock_place(mine, "user", "ann"))
    store.put(mine, entries([item], vectors[1:]))
    assert {each for each, _ in store.nearest(mine, query)} == {"kept", "lost"}
    transaction.rollback()
    assert by_copies(store, mine, query).keys() == {"kept"}


def test_a_change_that_is_not_committed_yet_is_seen_afterwards_whoever_was_first(
    two: tuple[Connection, Connection],
) -> None:
    mine, others = two
    vectors, query = made(3), asked(made(1, seed=9)[0])
    store = PgVectorStore()
    asked_before(store, mine, query)
    slow = others.begin()
    put(others, "slow", vectors[0])
    assert by_copies(store, mine, query) == {}
    with mine.begin():
        put(mine, "bobs", vectors[1], "bob")
    assert by_copies(store, mine, query) == {}
    slow.commit()
    assert by_copies(store, mine, query).keys() == {"slow"}


def test_one_member_s_copy_is_not_given_to_another(two: tuple[Connection, Connection]) -> None:
    mine, _ = two
    store = PgVectorStore()
    with mine.begin():
        put(mine, "anns", made(1)[0])
        put(mine, "bobs", made(1)[0], "bob")
    for user in ("ann", "bob"):
        query = asked(made(1)[0], user)
        asked_before(store, mine, query)
        assert by_copies(store, mine, query).keys() == {f"{user}s"}


def test_what_does_not_fit_or_is_asked_once_is_left_to_the_server(two: tuple[Connection, Connection]) -> None:
    mine, _ = two
    query = asked(made(1)[0])
    with mine.begin():
        for number, vector in enumerate(made(3)):
            put(mine, f"m{number}", vector)
    nothing, small = PgVectorStore(Options(kept_mb=0)), PgVectorStore()
    small._copies = Copies(500)
    for store in (nothing, small):
        for _ in range(3):
            with mine.begin():
                assert len(list(store.nearest(mine, query))) == 3
                assert store._copies_of(mine, query) is None
    with mine.begin():
        assert PgVectorStore()._copies_of(mine, query) is None


def test_tables_of_an_older_version_are_brought_up_to_date(postgres_url: str) -> None:
    engine = engine_of(with_extension(postgres_url))
    with engine.connect() as connection, connection.begin():
        create_memory_tables(connection)
        create_knowledge_tables(connection)
        PgVectorStore().prepare(connection)
        put(connection, "m", made(1)[0])
        connection.execute(text("DROP TABLE memory_vector_pg_place"))
        connection.execute(text("ALTER TABLE memory_vector_pg DROP COLUMN changed"))
    with engine.connect() as connection:
        with connection.begin():
            PgVectorStore().prepare(connection)
        store, query = PgVectorStore(), asked(made(1)[0])
        asked_before(store, connection, query)
        assert by_copies(store, connection, query).keys() == {"m"}
    engine.dispose()
