"""Large ingests embed in worker processes too; what is written does not depend on who embedded it."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from zeus_plugins.embeddings.static.embedder import StaticEmbedder

from tests.support.knowledge import Counting, knowledge, write
from zeus_runtime import WorkerFactory
from zeus_runtime.knowledge import embedding, ingest
from zeus_runtime.knowledge.embedding import Embedding
from zeus_runtime.knowledge.worker import Worker

URL = "sqlite:///kb.db"
ODD = ("", "\ud83d", "\x00", "漢字かな", "Ça coûte 20 € à l'été", "word " * 3_000, "line\nline\r\n")


@pytest.fixture(autouse=True)
def _three_processors_and_small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "processors", lambda: 3)
    monkeypatch.setattr(ingest, "WORTH_BYTES", 1)
    monkeypatch.setattr(ingest, "BATCH", 8)


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> list[Worker]:
    """Those that were started; nothing is embedded before they are ready."""
    started: list[Worker] = []
    begun = Embedding.begun

    class Noted(Worker):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            started.append(self)

    async def when_ready(self: Embedding, *given: Any) -> Any:
        await asyncio.gather(*(each.is_ready() for each in started))
        return await begun(self, *given)

    monkeypatch.setattr(embedding, "Worker", Noted)
    monkeypatch.setattr(Embedding, "begun", when_ready)
    return started


class Noting(StaticEmbedder):
    """The offline model, with what it embedded in this process."""

    def __init__(self, *, characters: bool = True) -> None:
        super().__init__(characters=characters)
        self.texts: list[str] = []

    async def embed(self, texts: Sequence[str], *, purpose: Any) -> Any:
        self.texts += texts
        return await super().embed(texts, purpose=purpose)


def documents(folder: Path, count: int = 40) -> Path:
    for number in range(count):
        write(
            folder,
            f"{number:02}.md",
            f"# Odyssey {number}\n\nOdysseus came to island {number}.\n\n# And left\n\nIt.",
        )
    return folder


def written(path: Path) -> list[tuple[Any, ...]]:
    """All that an ingest wrote of texts and vectors."""
    rows = (
        "SELECT label, number, places, texts, lengths, words, vectors FROM knowledge_part"
        " JOIN knowledge_document ON knowledge_document.key = document ORDER BY label, number"
    )
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.execute(rows))


async def test_what_workers_embed_is_what_one_process_would_have_written(
    tmp_path: Path, workers: list[Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    docs = documents(tmp_path / "docs")
    write(docs, "long.md", "\n\n".join(f"# Part {n}\n\nWhat part {n} says." for n in range(50)))
    async with knowledge("sqlite:///many.db", tmp_path, embedder=(model := Noting())) as service:
        many = await service.add("book", [docs])
    assert len(workers) == 2
    assert 0 < len(model.texts) < many.embedded
    monkeypatch.setattr(ingest, "WORTH_BYTES", 1_000_000)
    async with knowledge("sqlite:///one.db", tmp_path) as service:
        one = await service.add("book", [docs])
    assert len(workers) == 2
    assert many == one
    assert written(tmp_path / "many.db") == written(tmp_path / "one.db")


async def test_what_a_killed_worker_had_is_embedded_here(
    tmp_path: Path, workers: list[Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    docs = documents(tmp_path / "docs")
    embed = Worker.embed

    def killing(self: Worker, texts: Sequence[str]) -> Any:
        answer = embed(self, texts)
        assert self._process is not None
        self._process.kill()
        return answer

    monkeypatch.setattr(Worker, "embed", killing)
    async with knowledge("sqlite:///many.db", tmp_path, embedder=(model := Noting())) as service:
        done = await service.add("book", [docs])
    assert (done.chunks, done.embedded) == (80, len(model.texts))
    monkeypatch.setattr(ingest, "WORTH_BYTES", 1_000_000)
    async with knowledge("sqlite:///one.db", tmp_path) as service:
        await service.add("book", [docs])
    assert written(tmp_path / "many.db") == written(tmp_path / "one.db")


async def test_a_worker_that_does_not_answer_is_ended(
    tmp_path: Path, workers: list[Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    embed = Worker.embed

    def stopping(self: Worker, texts: Sequence[str]) -> Any:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        return embed(self, texts)

    monkeypatch.setattr(Worker, "embed", stopping)
    monkeypatch.setattr(embedding, "_ANSWER_SECONDS", 0.2)
    async with knowledge(URL, tmp_path, embedder=(model := Noting())) as service:
        done = await service.add("book", [documents(tmp_path / "docs")])
    assert (done.chunks, done.embedded) == (80, len(model.texts))
    assert [each._process.returncode for each in workers if each._process] == [-signal.SIGKILL] * 2


@pytest.mark.parametrize(
    "factory",
    [
        WorkerFactory("zeus_plugins.embeddings.static.embedder:StaticEmbedder", {"characters": False}),
        WorkerFactory("zeus_plugins.embeddings.static.embedder:NoEmbedder", {}),
        WorkerFactory("no.such.module:Embedder", {}),
        WorkerFactory("builtins:print", {}),
    ],
    ids=["another model", "no such name", "no such module", "no model"],
)
async def test_one_that_does_not_make_the_same_model_embeds_nothing(
    tmp_path: Path, workers: list[Worker], factory: WorkerFactory
) -> None:
    model = Noting()
    model.worker = factory
    async with knowledge(URL, tmp_path, embedder=model) as service:
        done = await service.add("book", [documents(tmp_path / "docs")])
    assert len(workers) == 2
    assert (done.chunks, done.embedded) == (80, len(model.texts))


async def test_where_no_process_can_be_started_all_is_embedded_here(
    tmp_path: Path, workers: list[Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    async with knowledge(URL, tmp_path, embedder=(model := Noting())) as service:
        done = await service.add("book", [documents(tmp_path / "docs")])
    assert (done.chunks, done.embedded) == (80, len(model.texts))


async def test_small_ingests_lone_processors_and_models_that_wait_have_no_workers(
    tmp_path: Path, workers: list[Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    docs = documents(tmp_path / "docs", 3)
    async with knowledge(
        URL, tmp_path, embedder=Counting()
    ) as service:  # it does not say how workers make it
        await service.add("waiting", [docs])
    async with knowledge(URL, tmp_path) as service:
        monkeypatch.setattr(embedding, "processors", lambda: 1)
        await service.add("lone", [docs])
        monkeypatch.setattr(embedding, "processors", lambda: 3)
        monkeypatch.setattr(ingest, "WORTH_BYTES", 1_000_000)
        await service.add("small", [docs])
        assert not workers
        # Nor has one of many files that did not change.
        monkeypatch.setattr(ingest, "WORTH_BYTES", 300)
        assert (await service.add("small", [])).unchanged == 3
        assert not workers


async def test_a_given_up_ingest_leaves_no_worker(tmp_path: Path, workers: list[Worker]) -> None:
    class Failing(Noting):
        async def embed(self, texts: Sequence[str], *, purpose: Any) -> Any:
            raise KeyboardInterrupt

    async with knowledge(URL, tmp_path, embedder=Failing()) as service:
        with pytest.raises(KeyboardInterrupt):
            await service.add("book", [documents(tmp_path / "docs")])
        assert [each._process.returncode for each in workers if each._process] == [-signal.SIGKILL] * 2
        # What was written stays, and the rest is done the next time.
        async with knowledge(URL, tmp_path) as another:
            done = await another.add("book", [])
            assert done.added + done.unchanged == 40


async def test_any_text_goes_there_and_comes_back_as_a_vector() -> None:
    model = StaticEmbedder()
    assert model.worker is not None
    there = Worker(model, model.worker)
    try:
        assert await there.is_ready()
        first, second = there.embed(ODD), there.embed(ODD[::-1])
        assert not there.takes(2)
        expected = await model.embed(ODD, purpose="memory")
        for vectors, wanted in ((await first, expected), (await second, expected[::-1])):
            assert vectors is not None
            assert vectors.tobytes() == wanted.tobytes()
        assert there.takes(1)
    finally:
        await there.close()
    assert not there.takes(1)


async def test_a_worker_has_no_secrets_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    model = StaticEmbedder()
    assert model.worker is not None
    there = Worker(model, model.worker)
    try:
        assert await there.is_ready()
        assert there._process is not None
        environment = await asyncio.to_thread(Path(f"/proc/{there._process.pid}/environ").read_bytes)
        assert b"PATH=" in environment
        assert b"sk-very-secret" not in environment
    finally:
        await there.close()


KILLED = """
import asyncio, sys
from zeus_plugins.embeddings.static.embedder import StaticEmbedder
from zeus_runtime import WorkerFactory
from zeus_runtime.knowledge.worker import Worker

class Endless(StaticEmbedder):
    async def embed(self, texts, *, purpose):
        with open(sys.argv[1], "w") as begun:
            begun.write(str(__import__("os").getpid()))
        sum(iter(lambda: 1, 2))

async def main():
    there = Worker(StaticEmbedder(), WorkerFactory("killed:Endless", {}))
    assert await there.is_ready()
    await there.embed(["word"])

if __name__ == "__main__":
    asyncio.run(main())
"""


def test_a_worker_ends_when_its_user_is_killed_whatever_it_is_doing(tmp_path: Path) -> None:
    module = write(tmp_path, "killed.py", KILLED.replace("sys.argv[1]", repr(str(tmp_path / "begun")), 1))
    os.mkfifo(tmp_path / "begun")
    user = subprocess.Popen([sys.executable, str(module)], env=os.environ | {"PYTHONPATH": str(tmp_path)})
    working = os.pidfd_open(int((tmp_path / "begun").read_bytes()))
    user.kill()
    user.wait()
    assert select.select([working], [], [], 60)[0]
    os.close(working)
