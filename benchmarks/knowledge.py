"""A knowledge base of 10,000 chunks: what an ingest takes beside the embedding model, and a search beside it.

    python benchmarks/knowledge.py [--chunks 10000] [--embedding static|api]

``api`` is a model that takes what a hosted one takes, about 5 ms of waiting for a chunk, without using the processor.
The embedder alone is the same texts in the same batches, given to it again when the ingest is done. Times are CPU time
of the process, but for ``wall``.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from zeus_plugins.embeddings.static.embedder import StaticEmbedder

from zeus_runtime import Embedder
from zeus_runtime.knowledge import KnowledgeService
from zeus_runtime.memory.items import Caller

WORDS = [
    line.strip()
    for line in Path(__file__).with_name("context.py").read_text().split()
    if line.strip().isalpha()
]


class Timed(Embedder):
    """The offline model, its CPU time measured."""

    def __init__(self, wait_seconds: float) -> None:
        self._real = StaticEmbedder()
        self.model, self.dimension = self._real.model, self._real.dimension
        self.calibration, self.quick = self._real.calibration, True
        self._wait_seconds = wait_seconds
        self.cpu_seconds = 0.0
        self.batches: list[Sequence[str]] = []

    async def embed(self, texts: Sequence[str], *, purpose: Any) -> Any:
        started = time.process_time()
        vectors = await self._real.embed(texts, purpose=purpose)
        self.cpu_seconds += time.process_time() - started
        self.batches.append(texts)
        if self._wait_seconds and purpose == "memory":
            await asyncio.sleep(self._wait_seconds * len(texts))
        return vectors


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


async def main(chunks: int, embedding: str) -> None:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "docs").mkdir()
        documents(folder / "docs", chunks)
        embedder = Timed(0.005 if embedding == "api" else 0.0)
        await embedder.embed(["warm"], purpose="query")
        (folder / "warm.md").write_text("warm")
        service = KnowledgeService(
            "sqlite:///kb.db", folder, open_embedder=lambda: embedder, caller=Caller("ann")
        )
        await service.add("warm", [folder / "warm.md"])
        embedder.batches = []
        cpu, wall = time.process_time(), time.perf_counter()
        done = await service.add("big", [folder / "docs"])
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        batches, embedder.batches, embedder.cpu_seconds = embedder.batches, [], 0.0
        waited = 0.005 * sum(map(len, batches)) if embedding == "api" else 0.0
        for batch in batches:
            await embedder.embed(batch, purpose="query" if waited else "memory")
        alone = embedder.cpu_seconds
        print(
            f"ingest    {done.chunks:,} chunks: {cpu:.2f} s CPU; the embedder alone {alone:.2f} s; wall {wall:.1f} s"
        )
        print(f"          ingest / embedder alone = {(cpu + waited) / (alone + waited):.2f}")
        cpu = time.process_time()
        again = await service.add("big", [])
        print(f"again     {again.unchanged:,} files unchanged: {time.process_time() - cpu:.2f} s CPU")
        queries = [
            " ".join(random.choices(WORDS, k=6)) + f" {random.randrange(chunks // 10)}" for _ in range(50)
        ]
        cpu = time.process_time()
        await service.search(queries[0], names=["big"])
        print(f"first     search, the base read into memory: {(time.process_time() - cpu) * 1e3:.0f} ms CPU")
        cpu, embedder.cpu_seconds = time.process_time(), 0.0
        for query in queries:
            assert (await service.search(query, names=["big"])).hits
        beside = time.process_time() - cpu - embedder.cpu_seconds
        print(f"search    {beside / len(queries) * 1e3:.1f} ms CPU each beside the embedding")
        await service.aclose()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--chunks", type=int, default=10_000)
    parser.add_argument("--embedding", choices=["static", "api"], default="static")
    given = parser.parse_args()
    asyncio.run(main(given.chunks, given.embedding))
