"""A knowledge base of 10,000 chunks: what an ingest takes beside the embedding model, and a search beside it.

    python benchmarks/knowledge.py [--chunks 10000] [--rounds 5] [--embedding static|api] [--folder DOCUMENTS]

``api`` is a model that takes what a hosted one takes, about 5 ms of waiting for a chunk, without using the processor.
The embedder alone is given each batch too, right before the ingest's own or right after, by turns: the second finds the
batch's words in the model's memory. Times are CPU time of the process.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
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
    """The offline model; each batch is embedded twice, once for the ingest and once to know what that alone takes.

    So both are measured in the same moment: a machine that throttles or that others use slows both.
    """

    def __init__(self, wait_seconds: float) -> None:
        self._real = StaticEmbedder()
        self.model, self.dimension = self._real.model, self._real.dimension
        self.calibration, self.quick = self._real.calibration, True
        self.wait_seconds = wait_seconds
        self.inside_seconds = 0.0
        self.alone_seconds = 0.0
        self.texts = 0
        self.batches = 0

    async def embed(self, texts: Sequence[str], *, purpose: Any) -> Any:
        self.batches += 1
        if purpose == "memory" and self.batches % 2:
            await self._embed_alone(texts)
        started = time.process_time()
        vectors = await self._real.embed(texts, purpose=purpose)
        self.inside_seconds += time.process_time() - started
        if purpose == "memory":
            if not self.batches % 2:
                await self._embed_alone(texts)
            self.texts += len(texts)
            if self.wait_seconds:
                await asyncio.sleep(self.wait_seconds * len(texts))
        return vectors

    async def _embed_alone(self, texts: Sequence[str]) -> None:
        started = time.process_time()
        await self._real.embed(texts, purpose="memory")
        self.alone_seconds += time.process_time() - started

    def reset(self) -> None:
        self.inside_seconds = self.alone_seconds = 0.0
        self.texts = 0


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
        embedder = Timed(0.005 if embedding == "api" else 0.0)
        await embedder.embed(["warm"], purpose="query")
        (folder / "warm.md").write_text("warm")
        service = KnowledgeService(
            "sqlite:///kb.db", folder, open_embedder=lambda: embedder, caller=Caller("ann")
        )
        await service.add("warm", [folder / "warm.md"])
        measured = [await ingested(service, docs, embedder) for _ in range(rounds)]
        await service.add("big", [docs])
        cpu = time.process_time()
        again = await service.add("big", [])
        print(f"again     {again.unchanged:,} files unchanged: {time.process_time() - cpu:.2f} s CPU")
        queries = [
            " ".join(random.choices(WORDS, k=6)) + f" {random.randrange(chunks // 10)}" for _ in range(50)
        ]
        cpu = time.process_time()
        await service.search(queries[0], names=["big"])
        print(f"first     search, the base read into memory: {(time.process_time() - cpu) * 1e3:.0f} ms CPU")
        beside = []
        for query in queries:
            embedder.reset()
            cpu = time.process_time()
            assert (await service.search(query, names=["big"])).hits
            beside.append(time.process_time() - cpu - embedder.inside_seconds)
        print(f"search    {median(beside) * 1e3:.1f} ms CPU each beside the embedding")
        await service.aclose()
        print(f"median    of {rounds}: ingest / embedder alone = {median(measured):.2f}")


async def ingested(service: KnowledgeService, docs: Path, embedder: Timed) -> float:
    """Ingest all, say what it took, and remove it; what it took as multiples of the embedder alone."""
    embedder.reset()
    cpu = time.process_time()
    done = await service.add("big", [docs])
    cpu = time.process_time() - cpu - embedder.alone_seconds
    waited = 0.005 * embedder.texts if embedder.wait_seconds else 0.0
    ratio = (cpu + waited) / (embedder.alone_seconds + waited)
    print(
        f"ingest    {done.chunks:,} chunks: {cpu:.2f} s CPU, the embedder alone {embedder.alone_seconds:.2f} s:"
        f" {ratio:.2f}; beside the embedder {(cpu - embedder.inside_seconds) / done.chunks * 1e6:.0f} µs a chunk"
    )
    await service.remove("big")
    return ratio


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--chunks", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--embedding", choices=["static", "api"], default="static")
    parser.add_argument("--folder", type=Path, help="documents of your own instead of made ones")
    given = parser.parse_args()
    asyncio.run(main(given.chunks, given.embedding, given.rounds, given.folder))
