"""A knowledge base of 100,000 chunks in each vector store: ingest, search, recall, memory, two processes, SIGKILL.

    python -m benchmarks.knowledge_stores [--chunks 100000] [--stores sqlite,pgvector,chroma,server]

Each phase is a process of its own. Recall is the share of the 15 nearest vectors, which a search of five passages asks
for, that the store gives; the reference compares all vectors in float64. Memory is the most that a process had, and CPU
is of the process with its workers: with pgvector and a server, their own processes come on top. A second process
searches while the first has the base open. The killed ingest ends by SIGKILL after a third of its chunks; the next one
continues, and then no vector may be missing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from statistics import fmean, median, quantiles
from typing import Any

import numpy as np
from zeus_plugins.embeddings.static.embedder import StaticEmbedder
from zeus_plugins.vector_stores.chroma.store import ChromaVectorStore
from zeus_plugins.vector_stores.pgvector.store import PgVectorStore
from zeus_plugins.vector_stores.sqlite.store import SqliteVectorStore

from benchmarks.knowledge import WORDS, Times, documents
from tests.support.chroma_server import chroma_server
from zeus_runtime.errors import MissingError
from zeus_runtime.knowledge import KnowledgeService, Progress
from zeus_runtime.memory.items import Caller
from zeus_runtime.memory.vectors import VectorStore

NEAREST = 15


def service(store: str, folder: Path, url: str) -> KnowledgeService:
    opens: dict[str, Callable[[], VectorStore]] = {
        "sqlite": SqliteVectorStore,
        "pgvector": PgVectorStore,
        "chroma": lambda: ChromaVectorStore(folder / "vectors"),
        "server": lambda: ChromaVectorStore(url),
    }
    database = url if store == "pgvector" else "sqlite:///kb.db"
    return KnowledgeService(
        database, folder, open_vectors=opens[store], open_embedder=StaticEmbedder, caller=Caller("ann")
    )


async def filled(store: str, folder: Path, url: str, chunks: int, *, killed: bool = False) -> dict[str, Any]:
    def progress(now: Progress) -> None:
        if killed and now.chunks > chunks // 3:
            os.kill(os.getpid(), signal.SIGKILL)

    base, name = service(store, folder, url), "killed" if killed else "big"
    started = Times.now()
    done = await base.add(name, [folder / "docs"], progress=progress)
    took = Times.now().since(started)
    await base.aclose()
    return {
        "chunks": done.chunks,
        "ingest_s": round(took.clock, 1),
        "ingest_cpu_s": round(took.cpu, 1),
        "ingest_mb": most_mb(),
    }


async def searched(store: str, folder: Path, url: str, chunks: int) -> dict[str, Any]:
    base = service(store, folder, url)
    random.seed(2)
    queries = [
        " ".join(random.choices(WORDS, k=6)) + f" {random.randrange(chunks // 10)}" for _ in range(200)
    ]
    started = Times.now()
    result = await base.search(queries[0], names=["big"])
    assert result.hits
    assert not result.notices
    first = Times.now().since(started)
    await base.search(queries[1], names=["big"])
    times = []
    for query in queries:
        started = Times.now()
        assert (await base.search(query, names=["big"])).hits
        times.append(Times.now().since(started))
    memory = most_mb()
    found = {
        "first_s": round(first.clock, 2),
        "search_ms": round(median(each.clock for each in times) * 1e3, 1),
        "search_cpu_ms": round(fmean(each.cpu for each in times) * 1e3, 1),
        "p95_ms": round(quantiles([each.clock for each in times], n=20)[-1] * 1e3, 1),
        "search_mb": memory,
        "second_process": beside(store, folder, url, chunks),
        "recall": await recall(base, queries[:50]),
    }
    await base.aclose()
    return found


def beside(store: str, folder: Path, url: str, chunks: int) -> str:
    """What another process says of the base that this one has open."""
    other = subprocess.run(
        command("open", store, folder, url, chunks), capture_output=True, text=True, check=False
    )
    return other.stdout.strip() or other.stderr[-200:]


async def recall(base: KnowledgeService, queries: list[str]) -> float:
    info = await base.base("big")
    assert info is not None
    database, store = await base._open(), await base._store()
    collection = store.collection(info.collection, info.dimension)
    ids = sorted(await database.run(lambda connection: dict(collection.digests(connection))))
    blocks = []
    for start in range(0, len(ids), 5_000):
        some = ids[start : start + 5_000]
        blocks.append(await database.run(lambda connection, some=some: collection.read(connection, some)))  # type: ignore[misc]
    numbers = np.array([number for each in blocks for number in each.ids])
    vectors = np.concatenate([each.vectors for each in blocks]).astype(np.float64)
    right = 0
    for vector in await StaticEmbedder().embed(queries, purpose="query"):
        cosines = vectors @ vector.astype(np.float64)
        least = np.partition(cosines, -NEAREST)[-NEAREST] - 1e-6
        near = set(numbers[cosines >= least].tolist())
        given = await database.run(
            lambda connection, of=vector: list(islice(collection.nearest(connection, of), NEAREST))  # type: ignore[misc]
        )
        right += sum(each.id in near for each in given)
    return round(right / (NEAREST * len(queries)), 4)


async def opened(store: str, folder: Path, url: str) -> str:
    base = service(store, folder, url)
    try:
        result = await base.search(WORDS[0], names=["big"])
        return "finds" if result.hits and not result.notices else f"finds with {result.notices}"
    except MissingError:
        return "is refused"
    finally:
        await base.aclose()


async def continued(store: str, folder: Path, url: str) -> dict[str, Any]:
    base = service(store, folder, url)
    done = await base.add("killed", [])
    again = await base.add("killed", [])
    result = await base.search(WORDS[0], names=["killed"])
    await base.aclose()
    return {
        "after_kill_embedded": done.embedded,
        "after_kill_repaired": done.repaired,
        "after_kill_wrong": again.repaired + len(result.notices),
    }


def most_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1_000


def command(phase: str, store: str, folder: Path, url: str, chunks: int) -> list[str]:
    words = [
        "--phase",
        phase,
        "--store",
        store,
        "--folder",
        str(folder),
        "--url",
        url,
        "--chunks",
        str(chunks),
    ]
    return [sys.executable, "-m", "benchmarks.knowledge_stores", *words]


@contextmanager
def place(store: str, folder: Path) -> Iterator[str]:
    """The URL of the server that a store needs; empty for none."""
    if store == "server":
        with chroma_server(folder / "server") as url:
            yield url
    elif store == "pgvector":
        from tests.support.databases import database_on, execute, local_server

        server = local_server("knowledge-stores")
        try:
            with database_on(server.url) as url:
                execute(url, "CREATE EXTENSION vector")
                yield url
        finally:
            server.end()
    else:
        yield ""


def measured(store: str, chunks: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "docs").mkdir()
        documents(folder / "docs", chunks)
        with place(store, folder) as url:
            found: dict[str, Any] = {"store": store}
            for phase in ("fill", "search"):
                done = subprocess.run(
                    command(phase, store, folder, url, chunks), stdout=subprocess.PIPE, text=True, check=True
                )
                found |= json.loads(done.stdout)
            done = subprocess.run(command("kill", store, folder, url, chunks), check=False)
            assert done.returncode == -signal.SIGKILL
            done = subprocess.run(
                command("continue", store, folder, url, chunks), stdout=subprocess.PIPE, text=True, check=True
            )
            return found | json.loads(done.stdout)


async def phase(name: str, store: str, folder: Path, url: str, chunks: int) -> None:
    if name == "open":
        print(await opened(store, folder, url))
    elif name == "search":
        print(json.dumps(await searched(store, folder, url, chunks)))
    elif name == "continue":
        print(json.dumps(await continued(store, folder, url)))
    else:
        print(json.dumps(await filled(store, folder, url, chunks, killed=name == "kill")))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--stores", default="sqlite,pgvector,chroma,server")
    for name in ("phase", "store", "folder", "url"):
        parser.add_argument(f"--{name}", default="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.phase:
        asyncio.run(phase(given.phase, given.store, Path(given.folder), given.url, given.chunks))
    else:
        for each in given.stores.split(","):
            print(json.dumps(measured(each, given.chunks)), flush=True)
