"""How long memory takes with many items in one scope: ``python -m benchmarks.memory [--postgres] [ITEMS]``.

50,000 made-up sentences, English and Chinese, of one user, embedded by the bundled table; vectors of queries and of
new texts are made beforehand, so what is timed is everything else: checks, transaction, both indexes, ranking. The
results are compared with ranking everything by brute force. For scale, one product of the same matrix with a vector.
"""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from zeus_plugins.embeddings.static.embedder import StaticEmbedder
from zeus_plugins.vector_stores.sqlite.store import SqliteVectorStore

from zeus_runtime.memory.embedding import Embedder, Purpose
from zeus_runtime.memory.fusion import Fusion, corpus, lexical_similarity, search_tokens
from zeus_runtime.memory.items import MEMORY_TYPES, Caller, Embedding, MemoryItem
from zeus_runtime.memory.ranking import rank
from zeus_runtime.memory.service import MemoryService, MemorySource
from zeus_runtime.memory.vectors import Entry

if TYPE_CHECKING:
    from sqlalchemy import Connection

ITEMS = 50_000
TIMED = 200
CHECKED = 10
_WHO = "The user|The team|Ann|Bob|The customer|The new colleague|The project|The office".split("|")
_DOES = (
    "prefers|uses|dislikes|maintains|reviews|postpones|depends on|asks about|plans|documents|replaces|tests"
).split("|")
_WHAT = (
    "the dark theme|Postgres|green tea|the billing service|weekly reports|the piano|trail running|unit tests|"
    "the old laptop|a standing desk|the release checklist|French lessons|the search index|long train rides|"
    "the data warehouse|vegetarian food|the night shift|code reviews|the mobile app|pair programming"
).split("|")
_WHEN = (
    "on Mondays|in winter|before lunch|after the release|at home|in Berlin|since March|every evening".split(
        "|"
    )
)
_SYLLABLES = "ba be bo da di do fa fe ka ko la lo ma mi mo na ne pa po ra ri ro sa se ta to va vo".split()
_CHINESE = ("用户喜欢{}的{}", "项目{}需要{}", "团队决定{}使用{}", "客户{}不再需要{}")
_THINGS = "绿茶|数据库|夜间部署|周报|钢琴|山地徒步|代码审查|法语课|素食|深色主题|移动应用|搜索引擎".split("|")


def sentences(count: int, seed: int = 1) -> list[str]:
    """So many different memories, a tenth of them Chinese."""
    choose = random.Random(seed)
    found: dict[str, None] = {}
    while len(found) < count:
        number = choose.randrange(1_000_000)
        if choose.random() < 0.1:
            text = (
                choose.choice(_CHINESE).format(choose.choice(_THINGS), choose.choice(_THINGS)) + f"{number}号"
            )
        else:
            who, does, what, when = (choose.choice(each) for each in (_WHO, _DOES, _WHAT, _WHEN))
            about = " ".join("".join(choose.choices(_SYLLABLES, k=2)) for _ in range(3))
            text = f"{who} {does} {what} {when} for {about}, says ticket {number}"
        found[text] = None
    return list(found)


class Prepared(Embedder):
    """The vectors of a model, made beforehand."""

    quick = True

    def __init__(self, model: Embedder) -> None:
        self._model = model
        self._known: dict[str, Any] = {}
        self.model, self.dimension, self.calibration = model.model, model.dimension, model.calibration

    def coverage(self, text: str) -> float:
        return self._model.coverage(text)

    async def prepare(self, texts: Sequence[str]) -> Any:
        vectors = await self._model.embed(texts, purpose="memory")
        self._known |= zip(texts, vectors, strict=True)
        return vectors

    async def embed(self, texts: Sequence[str], *, purpose: Purpose) -> Any:
        return np.stack([self._known[text] for text in texts])


@dataclass(frozen=True)
class Filled:
    """A memory with its items, and their vectors in the same order."""

    memory: MemoryService
    embedder: Prepared
    items: Sequence[MemoryItem]
    vectors: Any


async def fill(folder: Path, count: int) -> Filled:
    """A memory of so many items, written without the gate."""
    from zeus_runtime.memory import records
    from zeus_runtime.store.database import Database
    from zeus_runtime.store.memory_tables import create_memory_tables

    embedder = Prepared(StaticEmbedder(characters=True))
    texts = sentences(count)
    vectors = await embedder.prepare(texts)
    store = SqliteVectorStore()
    source = MemorySource("sqlite:///memory.db", folder, SqliteVectorStore, lambda: embedder)
    now = datetime(2026, 1, 1, tzinfo=UTC)
    embedding = Embedding(embedder.model, embedder.dimension)
    items = [
        MemoryItem(
            id=f"mem_{number}",
            content=text,
            memory_type=MEMORY_TYPES[number % len(MEMORY_TYPES)],
            scope="user",
            scope_id="ann",
            created_by="ann",
            source="user",
            confidence=0.7 + number % 4 / 10,
            embedding=embedding,
            created_at=now,
            updated_at=now,
        )
        for number, text in enumerate(texts)
    ]

    def write(connection: Connection) -> None:
        records.begin_write(connection)
        create_memory_tables(connection)
        store.prepare(connection)
        place = records.changed(connection, records.lock_place(connection, "user", "ann"))
        for item in items:
            records.write(connection, item, place)
        store.put(
            connection, [Entry(item, embedding, each) for item, each in zip(items, vectors, strict=True)]
        )

    database = Database(source.url, directory=folder)
    await database.run(write)
    await database.checkpoint()
    await database.close()
    return Filled(MemoryService(source, Caller("ann", session_id="s1")), embedder, items, vectors)


async def timed(calls: Sequence[Callable[[], Awaitable[object]]]) -> list[float]:
    """Milliseconds of each, sorted."""
    found = []
    for call in calls:
        start = time.perf_counter()
        await call()
        found.append((time.perf_counter() - start) * 1_000)
    return sorted(found)


def line(name: str, milliseconds: Sequence[float]) -> str:
    p50, p95 = (milliseconds[int(len(milliseconds) * share)] for share in (0.5, 0.95))
    return f"{name:<34}{p50:9.2f}{p95:9.2f}{milliseconds[0]:9.2f}"


async def wrong(filled: Filled, queries: Sequence[str]) -> int:
    """Of so many queries, how many are not answered as brute force answers."""
    tokens = [search_tokens(item.content) for item in filled.items]
    known = corpus(tokens)
    scale = filled.embedder.calibration
    count = 0
    for query in queries:
        trust = scale.trust * filled.embedder.coverage(query)
        fusion = Fusion(scale.cosine_zero, scale.cosine_one, dense_trust=trust)
        (vector,) = await filled.embedder.embed([query], purpose="query")
        cosines = filled.vectors @ vector
        asked = search_tokens(query)
        scored = [
            (item, fusion.similarity(float(cosine), lexical_similarity(asked, words, known)))
            for item, cosine, words in zip(filled.items, cosines, tokens, strict=True)
        ]
        best = rank([each for each in scored if fusion.relevant(each[1])], 5)
        found = await filled.memory.search_memories(query)
        count += [round(each.final_score, 5) for each in found] != [
            round(each.final_score, 5) for each in best
        ]
    return count


async def measure(count: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        filled = await fill(Path(name), count)
        memory = filled.memory
        choose = random.Random(2)
        queries = {
            "one rare word": [f"ticket {choose.randrange(1_000_000)}" for _ in range(TIMED)],
            "a question": [
                f"What does {choose.choice(_WHO).lower()} think of {choose.choice(_WHAT)}?"
                for _ in range(TIMED)
            ],
            "a whole sentence": [choose.choice(filled.items).content for _ in range(TIMED)],
            "Chinese": [f"谁喜欢{choose.choice(_THINGS)}和{choose.choice(_THINGS)}?" for _ in range(TIMED)],
        }
        new = sentences(TIMED, seed=99)
        for texts in (*queries.values(), new):
            await filled.embedder.prepare(texts)
        print(f"{count:,} items of {filled.embedder.dimension} dimensions in one scope: milliseconds")
        print(f"{'':<34}{'p50':>9}{'p95':>9}{'best':>9}")

        async def product() -> None:
            filled.vectors @ filled.vectors[0]

        print(line("(one matrix-vector product)", await timed([product] * 50)))
        cold = await timed([lambda: memory.search_memories(queries["a question"][0])])
        print(f"{'first search of a process':<34}{cold[0]:9.2f}")
        for kind, texts in queries.items():
            calls = [lambda text=text: memory.search_memories(text) for text in texts]
            print(line(f"search: {kind}", await timed(calls)))  # type: ignore[arg-type]
        bad = await wrong(filled, [texts[0] for texts in queries.values()] + queries["a question"][1:CHECKED])
        adds = [lambda text=text: memory.add_explicit_memory(text) for text in new]
        print(line("add", await timed(adds)))  # type: ignore[arg-type]
        mixed = [lambda text=text: memory.search_memories(text) for text in new[:50]]
        print(line("search after adds", await timed(mixed)))  # type: ignore[arg-type]
        print(f"answers that differ from brute force: {bad} of {len(queries) + CHECKED - 1}")
        await memory.check()
        await memory.aclose()


def main() -> None:
    if "--postgres" in sys.argv:
        from benchmarks import memory_postgres

        numbers = [int(each) for each in sys.argv[1:] if each.isdigit()]
        asyncio.run(memory_postgres.measure(numbers[0] if numbers else memory_postgres.ITEMS))
        return
    asyncio.run(measure(int(sys.argv[1]) if len(sys.argv) > 1 else ITEMS))


if __name__ == "__main__":
    main()
