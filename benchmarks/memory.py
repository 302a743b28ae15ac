"""How long memory takes with many items: ``python -m benchmarks.memory [ITEMS] [SCOPES]``.

50,000 made-up sentences, English and Chinese, of so many users, embedded by the bundled table; vectors of queries and
of new texts are made beforehand, so what is timed is everything else: checks, transaction, both indexes, ranking. The
results are compared with ranking everything by brute force. For scale, one product of the same matrix with a vector,
and the bare SQL of a search and of an add with nothing around it. CPU time is that of the whole process.
"""

from __future__ import annotations

import asyncio
import random
import sqlite3
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from zeus_plugins.embeddings.static.embedder import StaticEmbedder
from zeus_plugins.vector_stores.sqlite.store import SqliteVectorStore

from zeus_runtime.memory.embedding import Embedder, Purpose
from zeus_runtime.memory.items import MEMORY_TYPES, Caller, Embedding, MemoryItem
from zeus_runtime.memory.opened import MemorySource
from zeus_runtime.memory.retrieval.analysis import query_tokens, search_tokens
from zeus_runtime.memory.retrieval.fusion import corpus, fusion, lexical_similarity
from zeus_runtime.memory.retrieval.ranking import rank
from zeus_runtime.memory.service import MemoryService
from zeus_runtime.memory.turns import before, in_context
from zeus_runtime.memory.vectors import Entry

if TYPE_CHECKING:
    from sqlalchemy import Connection

ITEMS = 50_000
TIMED = 200
CHECKED = 10
SPAN = timedelta(days=730)
"""The time in which the memories were said."""
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
_THEN = ("last month", "yesterday", "in March", "last week", "in 2025", "on Monday")
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
        self._known: dict[tuple[Purpose, str], Any] = {}
        self.model, self.dimension, self.calibration = model.model, model.dimension, model.calibration

    def coverage(self, text: str) -> float:
        return self._model.coverage(text)

    def known(self, text: str, purpose: Purpose = "memory") -> Any:
        """The vector of a text that was prepared."""
        return self._known[purpose, text]

    async def prepare(self, texts: Sequence[str], *, purpose: Purpose = "memory") -> Any:
        vectors = await self._model.embed(texts, purpose=purpose)
        self._known |= zip([(purpose, text) for text in texts], vectors, strict=True)
        return vectors

    async def embed(self, texts: Sequence[str], *, purpose: Purpose) -> Any:
        await self.prepare([text for text in texts if (purpose, text) not in self._known], purpose=purpose)
        return np.stack([self._known[purpose, text] for text in texts])


@dataclass(frozen=True)
class Filled:
    """A memory with its items, and their vectors in the same order."""

    memory: MemoryService
    embedder: Prepared
    items: Sequence[MemoryItem]
    vectors: Any

    def of(self, user: str) -> MemoryService:
        """The memory on behalf of ``user``."""
        return self.memory.for_caller(Caller(user, session_id=f"session of {user}"))


def user(number: int, scopes: int) -> str:
    """Whose memory the item of this number is."""
    return f"user_{number % scopes}"


async def fill(
    folder: Path,
    texts: Sequence[str],
    scopes: int = 1,
    *,
    alike: bool = False,
    turns: Sequence[Mapping[str, Any]] | None = None,
    model: Embedder | None = None,
) -> Filled:
    """A memory of these texts, dealt out to so many users and written without the gate.

    Args:
        alike: of one type and confidence.
        turns: further values of each item, such as its source_id; each text is then a turn after the one before.
        model: which embeds; the bundled table by default.
    """
    from zeus_runtime.memory import records
    from zeus_runtime.store.database import Database
    from zeus_runtime.store.memory_tables import create_memory_tables

    embedder = Prepared(model or StaticEmbedder(characters=True))
    store = SqliteVectorStore()
    source = MemorySource("sqlite:///memory.db", folder, SqliteVectorStore, lambda: embedder)
    now = datetime(2026, 1, 1, tzinfo=UTC)
    embedding = Embedding(embedder.model, embedder.dimension)
    items = [
        MemoryItem(
            id=f"mem_{number}",
            content=text,
            memory_type="fact" if alike else MEMORY_TYPES[number % len(MEMORY_TYPES)],
            scope="user",
            scope_id=user(number, scopes),
            created_by=user(number, scopes),
            source="user",
            confidence=1.0 if alike else 0.7 + number % 4 / 10,
            embedding=embedding,
            **{"created_at": now, "updated_at": now, **(turns[number] if turns else {})},
        )
        for number, text in enumerate(texts)
    ]
    vectors = await embedder.prepare(embedded_as(items))

    def write(connection: Connection) -> None:
        records.begin_write(connection)
        create_memory_tables(connection)
        store.prepare(connection)
        users = [user(number, scopes) for number in range(scopes)]
        places = {
            each: records.changed(connection, records.lock_place(connection, "user", each)) for each in users
        }
        for item in items:
            records.write(connection, item, places[item.scope_id])
        store.put(
            connection, [Entry(item, embedding, each) for item, each in zip(items, vectors, strict=True)]
        )

    database = Database(source.url, directory=folder)
    await database.run(write)
    await database.checkpoint()
    await database.close()
    return Filled(MemoryService(source, Caller(user(0, 1), session_id="s1")), embedder, items, vectors)


def embedded_as(items: Sequence[MemoryItem]) -> list[str]:
    """The text of each item as it is embedded: a turn after the one before it."""
    known = {item.source_id: item for item in items if item.source_id}
    return [in_context(item, known.get(before(item.source_id))) for item in items]


class Times(NamedTuple):
    """Milliseconds of each call, sorted."""

    wall: Sequence[float]
    cpu: Sequence[float]


async def timed(calls: Iterable[Callable[[], Awaitable[object]]]) -> Times:
    wall, cpu = [], []
    for call in calls:
        start, busy = time.perf_counter(), time.process_time()
        await call()
        cpu.append((time.process_time() - busy) * 1_000)
        wall.append((time.perf_counter() - start) * 1_000)
    return Times(sorted(wall), sorted(cpu))


def line(name: str, times: Times) -> str:
    figures = [each[int(len(each) * share)] for each in (times.cpu, times.wall) for share in (0.5, 0.95)]
    return f"{name:<34}" + "".join(f"{figure:9.2f}" for figure in figures)


@lru_cache(None)
def words_of(text: str) -> Sequence[str]:
    return search_tokens(text)


async def wrong(filled: Filled, queries: Sequence[tuple[str, str]]) -> int:
    """Of so many queries, each of a user, how many are not answered as brute force answers."""
    count = 0
    for asking, query in queries:
        own = [number for number, item in enumerate(filled.items) if item.scope_id == asking]
        tokens = [words_of(filled.items[number].content) for number in own]
        known = corpus(tokens)
        together = fusion(filled.embedder.calibration, filled.embedder.coverage(query))
        (vector,) = await filled.embedder.embed([query], purpose="query")
        asked = query_tokens(query)
        scored = [
            (
                filled.items[number],
                together.similarity(float(cosine), lexical_similarity(asked, words, known)),
            )
            for number, cosine, words in zip(own, filled.vectors[own] @ vector, tokens, strict=True)
        ]
        best = rank([each for each in scored if together.relevant(each[1])], 5)
        if all(each.similarity < together.surely for each in best):
            best = []
        found = await filled.of(asking).search_memories(query)
        count += [round(each.final_score, 5) for each in found] != [
            round(each.final_score, 5) for each in best
        ]
    return count


async def bare(folder: Path, vectors: int) -> tuple[Times, Times]:
    """The least that SQLite takes: reading five rows by id, and inserting a row with its words and its vector.

    In a table of its own with as many indexes as the real one, in a transaction each, ``synchronous`` NORMAL.
    """
    raw = sqlite3.connect(folder / "memory.db", isolation_level=None)
    raw.execute("PRAGMA synchronous=NORMAL")
    raw.execute("PRAGMA wal_autocheckpoint=0")
    raw.execute("CREATE TABLE bare AS SELECT * FROM memory_item WHERE key % 10 = 0")
    for column in ("id", "place, changed", "digest", "place, status, updated_ms", "superseded_by"):
        raw.execute(f"CREATE INDEX bare_{column.replace(', ', '_')} ON bare ({column})")
    raw.execute("CREATE VIRTUAL TABLE bare_words USING fts5(words, content='')")
    raw.execute("CREATE TABLE bare_vectors (key INTEGER PRIMARY KEY, vector BLOB)")
    choose = random.Random(3)
    blob = bytes(1_024)

    async def read() -> None:
        raw.execute("BEGIN")
        ids = [f"mem_{choose.randrange(vectors)}" for _ in range(5)]
        raw.execute("SELECT * FROM memory_item WHERE id IN (?, ?, ?, ?, ?)", ids).fetchall()
        raw.execute("COMMIT")

    async def write() -> None:
        raw.execute("BEGIN IMMEDIATE")
        raw.execute("UPDATE memory_place SET changes = changes WHERE key = 1")
        key = raw.execute(
            "INSERT INTO bare SELECT * FROM bare WHERE rowid = ?", (choose.randrange(1, vectors // 10),)
        ).lastrowid
        raw.execute(
            "INSERT INTO bare_words (rowid, words) VALUES (?, ?)",
            (key, " ".join(choose.choices(_SYLLABLES, k=14))),
        )
        raw.execute("INSERT INTO bare_vectors VALUES (?, ?)", (key, blob))
        raw.execute("COMMIT")

    try:
        return await timed([read] * TIMED), await timed([write] * TIMED)
    finally:
        for table in ("bare", "bare_words", "bare_vectors"):
            raw.execute(f"DROP TABLE {table}")
        raw.close()


async def measure(count: int, scopes: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        now = datetime.now(UTC)
        said = [
            {"created_at": at, "updated_at": at}
            for at in (now - number * SPAN / count for number in range(count))
        ]
        filled = await fill(Path(name), sentences(count), scopes, turns=said)
        choose = random.Random(2)
        queries = {
            "one rare word": [f"ticket {choose.randrange(1_000_000)}" for _ in range(TIMED)],
            "a question": [
                f"What does {choose.choice(_WHO).lower()} think of {choose.choice(_WHAT)}?"
                for _ in range(TIMED)
            ],
            "a whole sentence": [choose.choice(filled.items).content for _ in range(TIMED)],
            "a question of a time": [
                f"What did {choose.choice(_WHO).lower()} say of {choose.choice(_WHAT)} {choose.choice(_THEN)}?"
                for _ in range(TIMED)
            ],
            "Chinese": [f"谁喜欢{choose.choice(_THINGS)}和{choose.choice(_THINGS)}?" for _ in range(TIMED)],
        }
        new = sentences(TIMED, seed=99)
        for texts in (*queries.values(), new):
            await filled.embedder.prepare(texts)
            await filled.embedder.prepare(texts, purpose="query")

        def calls(do: Callable[[MemoryService, str], Awaitable[object]], texts: Sequence[str]) -> Any:
            memories = [filled.of(user(choose.randrange(scopes), scopes)) for _ in texts]
            return (
                lambda memory=memory, text=text: do(memory, text)
                for memory, text in zip(memories, texts, strict=True)
            )

        def search(memory: MemoryService, text: str) -> Awaitable[object]:
            return memory.search_memories(text)

        def add(memory: MemoryService, text: str) -> Awaitable[object]:
            return memory.add_explicit_memory(text)

        print(f"{count:,} items of {filled.embedder.dimension} dimensions in {scopes} scopes: milliseconds")
        print(f"{'':<34}{'CPU p50':>9}{'CPU p95':>9}{'p50':>9}{'p95':>9}")
        matrix = filled.vectors[: count // scopes]

        async def product() -> None:
            matrix @ filled.vectors[0]

        print(line("(one matrix-vector product)", await timed([product] * 50)))
        for kind, times in zip(("read", "insert"), await bare(Path(name), count), strict=True):
            print(line(f"(bare SQL, {kind})", times))
        cold = await timed(calls(search, queries["a question"][:1]))
        print(line("first search of a process", cold))
        firsts = [
            lambda number=number: filled.of(user(number, scopes)).search_memories(queries["a question"][0])
            for number in range(scopes)
        ]
        if scopes > 1:
            print(line("first search of a scope", await timed(firsts)))
        for kind, texts in queries.items():
            print(line(f"search: {kind}", await timed(calls(search, texts))))
        timeless = [kind for kind in queries if kind != "a question of a time"]  # brute force knows no times
        checked = [queries[kind][0] for kind in timeless] + queries["a question"][1:CHECKED]
        bad = await wrong(filled, [(user(number, scopes), text) for number, text in enumerate(checked)])
        print(line("add", await timed(calls(add, new))))
        print(line("search after adds", await timed(calls(search, new[:50]))))
        print(f"answers that differ from brute force: {bad} of {len(checked)}")
        await filled.memory.check()
        await filled.memory.aclose()


def main() -> None:
    numbers = [int(each) for each in sys.argv[1:] if each.isdigit()]
    for scopes in numbers[1:] or (50, 1):
        asyncio.run(measure(numbers[0] if numbers else ITEMS, scopes))


if __name__ == "__main__":
    main()
