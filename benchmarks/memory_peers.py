"""Zeus's memory beside mem0 and LangGraph's stores: ``python -m benchmarks.memory_peers [ITEMS SCOPES]``.

The same sentences and the same vectors, made beforehand, dealt out to so many users, each product in a process of its
own. mem0 runs without its language model (``infer=False``), spaCy's and fastembed's; LangGraph's stores compare vectors
only. The stores are filled in blocks; then searches and adds are timed one by one, up to 100 of them or 20 s of CPU.
``python -m benchmarks.memory_peers NAME ITEMS SCOPES FOLDER`` measures one and prints one JSON line.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable, Collection, Sequence
from pathlib import Path
from typing import Any, Protocol

from langchain_core.embeddings import Embeddings

from benchmarks.memory import _WHAT, _WHO, Prepared, fill, sentences, user

os.environ["MEM0_TELEMETRY"] = "false"
os.environ["ANONYMIZED_TELEMETRY"] = "false"

NAMES = ("zeus", "mem0_chroma", "mem0_qdrant", "langgraph_memory", "langgraph_sqlite")
TIMED = 100
_BLOCK = 1_000
_LONGEST = 20
_LEAST = 5


class Looked(Embeddings):
    """Vectors made beforehand, as LangChain asks for them.

    Args:
        queries: the texts that are queries: mem0 asks for memories as if they were queries, too.
    """

    def __init__(self, known: Prepared, queries: Collection[str] = ()) -> None:
        self._known = known
        self._queries = frozenset(queries)

    def embed_query(self, text: str) -> list[float]:
        vector = self._known.known(text, "query" if text in self._queries else "memory")
        return [float(each) for each in vector]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]


class Store(Protocol):
    """A peer: it keeps a text for a user and finds texts."""

    def fill(self, user: str, texts: Sequence[str]) -> None: ...

    def add(self, user: str, text: str) -> None: ...

    def search(self, user: str, text: str, count: int) -> list[str]: ...

    def close(self) -> None: ...


class Mem0:
    """mem0 with ``chroma`` or its default, ``qdrant``, both in a folder."""

    def __init__(self, store: str, folder: Path, known: Prepared, queries: Collection[str] = ()) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        os.environ["MEM0_DIR"] = str(folder)
        from mem0 import Memory  # type: ignore[import-not-found,unused-ignore]
        from mem0.configs.base import MemoryConfig  # type: ignore[import-not-found,unused-ignore]

        options: dict[str, Any] = {"collection_name": "bench", "path": str(folder / "vectors")}
        if store == "qdrant":
            options |= {"embedding_model_dims": known.dimension, "on_disk": True}
        config = MemoryConfig(
            vector_store={"provider": store, "config": options},
            embedder={"provider": "langchain", "config": {"model": Looked(known, queries)}},
            llm={"provider": "openai", "config": {"api_key": "none"}},
            history_db_path=str(folder / "history.db"),
        )
        self._memory = Memory(config)
        self._known = known

    def fill(self, user: str, texts: Sequence[str]) -> None:
        """What ``add`` writes of each, but for the history."""
        now = "2026-01-01T00:00:00+00:00"
        self._memory.vector_store.insert(
            vectors=[[float(each) for each in self._known.known(text)] for text in texts],
            ids=[str(uuid.uuid4()) for _ in texts],
            payloads=[
                {
                    "data": text,
                    "hash": hashlib.md5(text.encode()).hexdigest(),
                    "created_at": now,
                    "updated_at": now,
                    "user_id": user,
                    "text_lemmatized": text.lower(),
                }
                for text in texts
            ],
        )

    def add(self, user: str, text: str) -> None:
        self._memory.add(text, user_id=user, infer=False)

    def search(self, user: str, text: str, count: int) -> list[str]:
        found = self._memory.search(text, filters={"user_id": user}, top_k=count)
        return [each["memory"] for each in found["results"]]

    def close(self) -> None:
        self._memory.close()


class LangGraph:
    """LangGraph's store in ``memory`` or in ``sqlite`` (with sqlite-vec)."""

    def __init__(self, store: str, folder: Path, known: Prepared) -> None:
        index: Any = {
            "dims": known.dimension,
            "embed": Looked(known),
            "fields": ["text"],
            "text_fields": ["text"],
        }
        self._store: Any
        self._connection: Any = None
        self._count = 0
        if store == "memory":
            from langgraph.store.memory import InMemoryStore

            self._store = InMemoryStore(index=index)
            return
        from langgraph.store.sqlite import SqliteStore, base

        if not hasattr(sqlite3.Connection, "enable_load_extension"):
            import pysqlite3  # type: ignore[import-not-found,unused-ignore]

            base.sqlite3 = pysqlite3  # type: ignore[attr-defined]
        self._connection = SqliteStore.from_conn_string(str(folder / "store.db"), index=index)
        self._store = self._connection.__enter__()
        self._store.setup()

    def fill(self, user: str, texts: Sequence[str]) -> None:
        from langgraph.store.base import PutOp

        start, self._count = self._count + 1, self._count + len(texts)
        self._store.batch(
            [
                PutOp(("memories", user), str(number), {"text": text})
                for number, text in enumerate(texts, start)
            ]
        )

    def add(self, user: str, text: str) -> None:
        self._count += 1
        self._store.put(("memories", user), str(self._count), {"text": text})

    def search(self, user: str, text: str, count: int) -> list[str]:
        return [
            each.value["text"] for each in self._store.search(("memories", user), query=text, limit=count)
        ]

    def close(self) -> None:
        if self._connection is not None:
            self._connection.__exit__(None, None, None)


def _questions(count: int) -> list[str]:
    choose = random.Random(5)
    return [f"What does {choose.choice(_WHO).lower()} think of {choose.choice(_WHAT)}?" for _ in range(count)]


async def _timed(call: Callable[[str, str], Awaitable[object]], texts: Sequence[str], scopes: int) -> Any:
    """Milliseconds of CPU, the median and the time that 95 % keep within, of one call for each text and user."""
    choose, found = random.Random(7), []
    for text in texts:
        who = user(choose.randrange(scopes), scopes)
        start = time.process_time()
        await call(who, text)
        found.append((time.process_time() - start) * 1_000)
        if len(found) >= _LEAST and sum(found) > _LONGEST * 1_000:
            break
    return statistics.median(found), sorted(found)[int(len(found) * 0.95)]


async def one(name: str, count: int, scopes: int, folder: Path) -> dict[str, Any]:
    """Fill it, then time adds and searches."""
    from zeus_plugins.embeddings.static.embedder import StaticEmbedder

    texts, new, questions = sentences(count), sentences(TIMED, seed=99), _questions(TIMED)
    start = time.process_time()
    if name == "zeus":
        filled = await fill(folder, texts, scopes)
        await filled.embedder.prepare(new)
        await filled.embedder.prepare(questions, purpose="query")

        async def add(who: str, text: str) -> object:
            return await filled.of(who).add_explicit_memory(text)

        async def search(who: str, text: str) -> object:
            return await filled.of(who).search_memories(text)

        close = None
    else:
        known = Prepared(StaticEmbedder(characters=True))
        await known.prepare([*texts, *new, *questions])
        kind, _, where = name.partition("_")
        store: Store = (Mem0 if kind == "mem0" else LangGraph)(where, folder, known)
        start = time.process_time()
        for number in range(scopes):
            own = texts[number::scopes]
            for block in range(0, len(own), _BLOCK):
                store.fill(user(number, scopes), own[block : block + _BLOCK])

        async def add(who: str, text: str) -> object:
            store.add(who, text)
            return None

        async def search(who: str, text: str) -> object:
            return store.search(who, text, 5)

        close = store.close
    filling = time.process_time() - start
    for number in range(scopes):
        if not await search(user(number, scopes), questions[0]):
            raise RuntimeError(f"{name} finds nothing")
    figures = {
        "search_ms": await _timed(search, questions, scopes),
        "add_ms": await _timed(add, new, scopes),
    }
    await (filled.memory.aclose() if close is None else asyncio.to_thread(close))
    return {"name": name, "items": count, "fill_s": filling, **figures}


def _run(name: str, count: int, scopes: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.memory_peers", name, str(count), str(scopes), folder]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return {"name": name, "error": done.stderr.strip().splitlines()[-1:]}
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def main() -> None:
    if len(sys.argv) > 1 and sys.argv[1] in NAMES:
        name, count, scopes, folder = sys.argv[1:5]
        print(json.dumps(asyncio.run(one(name, int(count), int(scopes), Path(folder)))))
        return
    given = [int(each) for each in sys.argv[1:]]
    for count, scopes in [(given[0], given[1])] if len(given) > 1 else [(50_000, 50), (5_000, 1)]:
        print(
            f"{count:,} items in {scopes} scopes: milliseconds of CPU, median and 95 %, and times Zeus's median"
        )
        base: dict[str, Any] = {}
        for name in NAMES:
            found = _run(name, count, scopes)
            if "error" in found:
                print(f"{name:<20} {found['error']}")
                continue
            base = base or found
            figures = "".join(
                f"  {what} {found[key][0]:9.2f} {found[key][1]:9.2f} ({found[key][0] / base[key][0]:7.3f})"
                for what, key in (("search", "search_ms"), ("add", "add_ms"))
            )
            print(f"{name:<18} filled in {found['fill_s']:6.1f} s{figures}", flush=True)


if __name__ == "__main__":
    main()
