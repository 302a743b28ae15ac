"""A knowledge base of 10,000 chunks: the cost of an ingest, compared with the embedding model alone, and of a search.

    python -m benchmarks.knowledge [--chunks 10000] [--rounds 5] [--embedding static|api] [--workers 2]
        [--folder DOCUMENTS]

``api`` is a model that takes what a hosted one takes, about 5 ms of waiting for a chunk, without using the processor.
The embedder alone, in one process, is given the same batches before and after each ingest. Times are by the clock, and
of CPU with that of the worker processes, their start included.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from zeus_plugins.embeddings.static.embedder import StaticEmbedder
from zeus_plugins.vector_stores.sqlite.store import SqliteVectorStore

from zeus_runtime.knowledge import KnowledgeService, ingest
from zeus_runtime.memory.items import Caller

WORDS = [
    line.strip()
    for line in Path(__file__).with_name("context.py").read_text().split()
    if line.strip().isalpha()
]
HOSTED_SECONDS = 0.005


class Times(NamedTuple):
    """By the clock, and of CPU, in seconds."""

    clock: float
    cpu: float

    @staticmethod
    def now() -> Times:
        return Times(time.perf_counter(), sum(os.times()[:4]))

    def since(self, start: Times) -> Times:
        return Times(self.clock - start.clock, self.cpu - start.cpu)


class Noting(StaticEmbedder):
    """The offline model. It can keep the batches that it is given, and wait as for a hosted one."""

    def __init__(self, wait_seconds: float) -> None:
        super().__init__()
        self.wait_seconds = wait_seconds
        if not wait_seconds:
            self.worker = StaticEmbedder().worker
        self.kept: list[Sequence[str]] | None = None
        self.query_seconds = 0.0

    async def embed(self, texts: Sequence[str], *, purpose: Any) -> Any:
        if self.kept is not None:
            self.kept.append(texts)
        if self.wait_seconds:
            await asyncio.sleep(self.wait_seconds * len(texts))
        started = time.process_time()
        vectors = await super().embed(texts, purpose=purpose)
        self.query_seconds = time.process_time() - started
        return vectors

    @contextmanager
    def keeping(self) -> Iterator[list[Sequence[str]]]:
        """The batches of an ingest; nothing is embedded elsewhere."""
        batches: list[Sequence[str]] = []
        worker, self.worker, self.kept = self.worker, None, batches
        yield batches
        self.worker, self.kept = worker, None


def documents(folder: Path, chunks: int) -> None:
    """Markdown of about so many chunks of 300 tokens, ten to a file."""
    random.seed(1)
    for number in range(chunks // 10):
        parts = [
            f"## Part {part}\n\n"
            + "\n\n".join(" ".join(random.choices(WORDS, k=40)) + f" {number}." for _ in range(5))
            for part in range(10)
        ]
        (folder / f"{number}.md").write_text(f"# Document {number}\n\n" + "\n\n".join(parts))


async def main(chunks: int, embedding: str, rounds: int, docs: Path | None) -> None:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        if docs is None:
            docs = folder / "docs"
            docs.mkdir()
            documents(docs, chunks)
        embedder = Noting(HOSTED_SECONDS if embedding == "api" else 0.0)
        service = KnowledgeService(
            "sqlite:///kb.db",
            folder,
            open_vectors=SqliteVectorStore,
            open_embedder=lambda: embedder,
            caller=Caller("ann"),
        )
        with embedder.keeping() as batches:
            await service.add("big", [docs])
        await service.remove("big")
        measured = [await ingested(service, docs, embedder, batches) for _ in range(rounds)]
        print(
            f"median    of {rounds}: ingest / embedder alone = {median(each.clock for each in measured):.2f} by the"
            f" clock, {median(each.cpu for each in measured):.2f} of CPU"
        )
        await service.add("big", [docs])
        start = Times.now()
        again = await service.add("big", [])
        print(f"again     {again.unchanged:,} files unchanged: {Times.now().since(start).cpu:.2f} s CPU")
        await searched(service, embedder, chunks)
        await service.aclose()


async def ingested(
    service: KnowledgeService, docs: Path, embedder: Noting, batches: Sequence[Sequence[str]]
) -> Times:
    """Ingest all, say what it took, and remove it; what it took as multiples of the embedder alone."""
    before = await alone(embedder, batches)
    start = Times.now()
    done = await service.add("big", [docs])
    took = Times.now().since(start)
    await service.remove("big")
    after = await alone(embedder, batches)
    model = Times((before.clock + after.clock) / 2, (before.cpu + after.cpu) / 2)
    ratio = Times(took.clock / model.clock, took.cpu / model.cpu)
    print(
        f"ingest    {done.chunks:,} chunks: {took.clock:.2f} s by the clock, {took.cpu:.2f} of CPU; the embedder alone"
        f" {model.clock:.2f}, {model.cpu:.2f}: {ratio.clock:.2f}, {ratio.cpu:.2f};"
        f" {(took.cpu - model.cpu) / done.chunks * 1e6:.0f} µs CPU a chunk beside it"
    )
    return ratio


async def alone(embedder: Noting, batches: Sequence[Sequence[str]]) -> Times:
    start = Times.now()
    for texts in batches:
        await embedder.embed(texts, purpose="memory")
    return Times.now().since(start)


async def searched(service: KnowledgeService, embedder: Noting, chunks: int) -> None:
    queries = [" ".join(random.choices(WORDS, k=6)) + f" {random.randrange(chunks // 10)}" for _ in range(50)]
    cpu = time.process_time()
    await service.search(queries[0], names=["big"])
    print(f"first     search, the base read into memory: {(time.process_time() - cpu) * 1e3:.0f} ms CPU")
    beside = []
    for query in queries:
        cpu = time.process_time()
        assert (await service.search(query, names=["big"])).hits
        beside.append(time.process_time() - cpu - embedder.query_seconds)
    print(f"search    {median(beside) * 1e3:.1f} ms CPU each beside the embedding")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--chunks", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--embedding", choices=["static", "api"], default="static")
    parser.add_argument("--workers", type=int, default=ingest.WORKERS, help="0: all in one process")
    parser.add_argument("--folder", type=Path, help="documents of your own instead of made ones")
    given = parser.parse_args()
    ingest.WORKERS = given.workers  # type: ignore[misc]
    asyncio.run(main(given.chunks, given.embedding, given.rounds, given.folder))
