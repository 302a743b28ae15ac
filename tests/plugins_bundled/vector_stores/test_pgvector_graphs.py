"""The HNSW index is made beside the work of others: by one process, whole in the end, waited for by nobody."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Connection, Engine, create_engine, text
from zeus_plugins.vector_stores.pgvector.copies import copied_bytes
from zeus_plugins.vector_stores.pgvector.graphs import indexed_dimensions, make_graphs
from zeus_plugins.vector_stores.pgvector.options import Options
from zeus_plugins.vector_stores.pgvector.store import PgVectorStore

from tests.support.databases import execute
from tests.support.least_rights import as_agent
from tests.support.memory import service
from zeus_runtime.memory import records
from zeus_runtime.memory.items import Caller, Embedding
from zeus_runtime.plugin.vector_store import Entry
from zeus_runtime.store.postgres import connection_arguments, driver_url
from zeus_runtime.testing.store_in_use import some_item

INDEX = "memory_vector_pg_hnsw_64"


def engine_of(url: str) -> Engine:
    return create_engine(driver_url(url), connect_args=connection_arguments(url), use_native_hstore=False)


@pytest.fixture
def engine(postgres_url: str, tmp_path: Path) -> Iterator[Engine]:
    """A database with two vectors of ann's and no index."""
    execute(postgres_url, "CREATE EXTENSION vector")
    asyncio.run(tables(postgres_url, tmp_path))
    made = engine_of(postgres_url)
    with made.connect() as connection, connection.begin():
        put(connection, "m1", "m2")
    yield made
    made.dispose()


async def tables(url: str, folder: Path) -> None:
    memory = service(folder, url=url, open_vectors=PgVectorStore)
    await memory.list_memories()
    await memory.aclose()


def graphs() -> PgVectorStore:
    return PgVectorStore(Options(exact="never"))


def put(connection: Connection, *names: str) -> None:
    vectors = np.eye(len(names), 64, dtype=np.float32)
    place = records.changed(connection, records.lock_place(connection, "user", "ann"))
    for name in names:
        records.write(connection, some_item(name), place)
    entries = [
        Entry(some_item(name), Embedding("model-a", 64), vector)
        for name, vector in zip(names, vectors, strict=True)
    ]
    graphs().put(connection, entries)


def make(engine: Engine) -> None:
    with engine.connect() as connection:
        graphs().index(connection)


def indexed(engine: Engine) -> frozenset[int]:
    with engine.connect() as connection:
        return indexed_dimensions(connection)


def until_it_waits(engine: Engine) -> None:
    """Until somebody's CREATE INDEX waits for a transaction."""
    waiting = text(
        "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%CREATE INDEX CONCURRENTLY%'"
        " AND datname = current_database() AND wait_event_type = 'Lock' AND pid <> pg_backend_pid()"
    )
    with engine.connect() as connection:
        while not connection.execute(waiting).scalar():
            connection.rollback()


async def test_while_it_is_made_others_open_save_and_find(
    engine: Engine, postgres_url: str, tmp_path: Path
) -> None:
    with engine.connect() as slow:
        put(slow, "m3")
        making = threading.Thread(target=make, args=[engine])
        making.start()
        until_it_waits(engine)
        memory = service(tmp_path, Caller("bob"), url=postgres_url, open_vectors=graphs)
        saved = await memory.add_explicit_memory("The user plays the piano")
        (found,) = await memory.search_memories("piano")
        assert saved.item is not None
        assert found.item.id == saved.item.id
        await memory.aclose()
        assert making.is_alive()
        assert indexed(engine) == frozenset()
        slow.commit()
    making.join()
    assert indexed(engine) == {64}


def test_vectors_whose_copy_is_too_large_to_keep_are_indexed_and_others_are_not(engine: Engine) -> None:
    # Two vectors, of 64 dimensions and 4 bytes; a copy also has heads and room to grow.
    needed = copied_bytes(2, 64)
    assert needed == 2 * 64 * 7
    with engine.connect() as connection:
        make_graphs(connection, 0, int(needed))
        assert indexed(engine) == frozenset()
        make_graphs(connection, 0, int(needed) - 1)
    assert indexed(engine) == {64}


def test_vectors_that_are_not_many_are_not_indexed(engine: Engine) -> None:
    with engine.connect() as connection:
        make_graphs(connection, 2, 0)
        assert indexed(engine) == frozenset()
        make_graphs(connection, 1, 0)
    assert indexed(engine) == {64}


def test_two_that_open_at_once_make_one_index(engine: Engine) -> None:
    threads = [threading.Thread(target=make, args=[engine]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    make(engine)
    assert indexed(engine) == {64}
    with engine.connect() as connection:
        names = connection.execute(
            text(
                "SELECT relname, indisvalid FROM pg_index JOIN pg_class ON oid = indexrelid"
                " WHERE relname LIKE '%hnsw%'"
            )
        ).all()
    assert names == [(INDEX, True)]


def test_what_a_killed_process_left_is_made_anew(engine: Engine) -> None:
    with engine.connect() as slow:
        put(slow, "m3")
        making = threading.Thread(target=make, args=[engine])
        making.start()
        until_it_waits(engine)
        with engine.connect() as other:
            other.execute(
                text(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE query LIKE '%CREATE INDEX CONCURRENTLY%' AND datname = current_database()"
                    " AND pid <> pg_backend_pid()"
                )
            )
        making.join()
        slow.commit()
    with engine.connect() as connection:
        left = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(:name)"
        assert connection.execute(text(left), {"name": INDEX}).scalars().all() == [False]
    assert indexed(engine) == frozenset()
    make(engine)
    assert indexed(engine) == {64}


def test_an_index_that_another_process_made_is_asked_without_opening_again(engine: Engine) -> None:
    store = graphs()
    with engine.connect() as connection, connection.begin():
        store.prepare(connection)
    make(engine)
    with engine.connect() as connection, connection.begin():
        from tests.plugins_bundled.vector_stores.test_pgvector import asked

        seen: list[Any] = []
        store._by_graph = lambda *_: iter(seen.append("graph") or ())  # type: ignore[assignment, method-assign, func-returns-value]
        query = asked(np.eye(1, 64, dtype=np.float32)[0])
        list(
            store.nearest(connection, type(query)(query.vector, Embedding("model-a", 64), query.reach, "ann"))
        )
        assert seen == ["graph"]


def test_a_role_that_owns_nothing_says_who_can_make_it(
    engine: Engine, postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with as_agent(postgres_url) as url, caplog.at_level(logging.WARNING):
        agents = engine_of(url)
        make(agents)
        agents.dispose()
    assert "zeus db upgrade" in caplog.text
    assert indexed(engine) == frozenset()
