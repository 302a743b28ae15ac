"""Large ingests embed in worker processes too; what is written does not depend on who embedded it."""

from __future__ import annotations

import asyncio
import gc
import os
import select
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from zeus_plugins.embeddings.static.embedder import StaticEmbedder

from tests.support.knowledge import Counting, knowledge, write
from zeus_runtime.knowledge import Progress, embedding, ingest
from zeus_runtime.knowledge.embedding import IngestEmbedding
from zeus_runtime.knowledge.parts import unpacked_chunks
from zeus_runtime.knowledge.worker import Worker
from zeus_runtime.plugin.embedding import EmbeddingUnavailableError, WorkerFactory

URL = "sqlite:///kb.db"
ODD = (
    "",
    "\ud83d",
    "\ud83d" + "\ude00",
    "\U0001f600",
    "\x00",
    "漢字かな",
    "Ça coûte 20 € à l'été",
    "word " * 3_000,
    "line\nline\r\n",
)


@pytest.fixture(autouse=True)
def _three_processors_and_small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "processors", lambda: 3)
    monkeypatch.setattr(ingest, "WORTH_BYTES", 1)
    monkeypatch.setattr(ingest, "BATCH", 8)


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> list[Worker]:
    """Those that were started; nothing is embedded before they are ready."""
    started: list[Worker] = []
    begun = IngestEmbedding.begun

    class Noted(Worker):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            started.append(self)

    async def when_ready(self: IngestEmbedding, *given: Any) -> Any:
        for each in started:
            if not each._begun.done():
                await each.is_ready()
        return await begun(self, *given)

    monkeypatch.setattr(embedding, "Worker", Noted)
    monkeypatch.setattr(IngestEmbedding, "begun", when_ready)
    return started


class Noting(StaticEmbedder):
    """The offline model, with what it embedded in this process; it may fail after so many texts."""

    def __init__(self, *, fails_after: int | None = None) -> None:
        super().__init__()
        self.worker = StaticEmbedder().worker
        self.texts: list[str] = []
        self.fails_after = fails_after

    async def embed(self, texts: Sequence[str], *, purpose: Any) -> Any:
        if self.fails_after is not None and len(self.texts) + len(texts) > self.fails_after:
            raise EmbeddingUnavailableError("it is on holiday")
        self.texts += texts
        return await super().embed(texts, purpose=purpose)


class Feigned:
    """A worker without a process: it answers its orders one after the other, and dies of the one that it is told to.

    Args:
        ticks: of the event loop, before each answer; -1 is what it dies of. Shared, and gone through again and again.
    """

    def __init__(self, ticks: Iterator[int], most: list[int]) -> None:
        self._ticks = ticks
        self._most = most
        self._orders: deque[tuple[Sequence[str], asyncio.Future[Any]]] = deque()
        self._is_open = True
        self._come = asyncio.Event()
        self._running = asyncio.create_task(self._run())

    async def is_ready(self) -> bool:
        return True

    def takes(self, at_most: int) -> bool:
        return self._is_open and len(self._orders) < at_most

    def embed(self, texts: Sequence[str]) -> asyncio.Future[Any]:
        answer = asyncio.get_running_loop().create_future()
        self._orders.append((texts, answer))
        self._most.append(len(self._orders))
        self._come.set()
        return answer

    def end(self) -> None:
        self._is_open = False
        self._running.cancel()
        for _, answer in self._orders:
            if not answer.done():
                answer.set_result(None)
        self._orders.clear()

    async def close(self) -> None:
        self.end()
        await asyncio.wait([self._running])

    async def _run(self) -> None:
        while True:
            self._come.clear()
            while self._orders:
                ticks = next(self._ticks)
                if ticks < 0:
                    return self.end()
                for _ in range(ticks):
                    await asyncio.sleep(0)
                texts, answer = self._orders[0]
                vectors = await StaticEmbedder().embed(texts, purpose="memory")
                self._orders.popleft()
                if not answer.done():
                    answer.set_result(vectors)
            await self._come.wait()


@contextmanager
def feigned(ticks: Iterable[int]) -> Iterator[list[int]]:
    """Workers without processes; gives how many orders one had whenever it got another."""
    shared, most = cycle(ticks), list[int]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embedding, "Worker", lambda *_: Feigned(shared, most))
        yield most


def documents(folder: Path, count: int = 40) -> Path:
    for number in range(count):
        write(
            folder,
            f"{number:02}.md",
            f"# Odyssey {number}\n\nOdysseus came to island {number}.\n\n# And left\n\nIt.",
        )
    return folder


def long(folder: Path, name: str, parts: int = 50) -> Path:
    """A document of so many chunks."""
    return write(folder, name, "\n\n".join(f"# Part {n}\n\nWhat part {n} says." for n in range(parts)))


def written(path: Path, base: str = "book") -> list[tuple[Any, ...]]:
    """All that an ingest wrote of texts and vectors."""
    rows = (
        "SELECT label, number, places, texts, lengths, words, vectors FROM knowledge_part"
        " JOIN knowledge_document ON knowledge_document.key = document"
        " JOIN knowledge_base ON knowledge_base.key = base WHERE name = ? ORDER BY label, number"
    )
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.execute(rows, [base]))


async def test_what_workers_embed_is_what_one_process_would_have_written(
    tmp_path: Path, workers: list[Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The long one comes first: workers have no time to answer until this process embeds too.
    docs = documents(tmp_path / "docs")
    long(docs, "00-long.md")
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
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        answer = embed(self, texts)
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


async def test_a_long_document_is_embedded_by_all_of_them_and_here(tmp_path: Path) -> None:
    with feigned([50]) as most:
        async with knowledge(URL, tmp_path, embedder=(model := Noting(fails_after=3 * 8))) as service:
            with pytest.raises(EmbeddingUnavailableError):
                await service.add("book", [long(tmp_path, "long.md", 8 * 8)])
    assert most == [1, 2, 1, 2]
    assert len(model.texts) == 3 * 8


async def test_what_was_under_way_when_the_model_failed_is_not_embedded_again(tmp_path: Path) -> None:
    path = long(tmp_path, "long.md", 8 * 8)
    with feigned([50]) as most:
        async with knowledge(URL, tmp_path, embedder=Noting(fails_after=8)) as service:
            with pytest.raises(EmbeddingUnavailableError):
                await service.add("book", [path])
        assert most == [1, 2, 1, 2]
    async with knowledge(URL, tmp_path, embedder=(model := Counting())) as service:
        await service.add("book", [])
    assert len(model.texts) == 3 * 8


async def test_a_failed_ingest_leaves_no_failure_that_nobody_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    # The second worker dies while the first one is at its order: what it had has failed before its turn comes.
    with feigned([200, -1]):
        async with knowledge(URL, tmp_path, embedder=Noting(fails_after=0)) as service:
            with pytest.raises(EmbeddingUnavailableError):
                await service.add("book", [long(tmp_path, "long.md", 4 * 8)])
    gc.collect()
    assert told == []


def chunks(path: Path, base: str) -> list[tuple[Any, ...]]:
    """Each chunk with its vector; how many are a row's depends on what was there before."""
    return [
        (label, number + place, chunk, vectors[place * 1024 : (place + 1) * 1024])
        for label, number, places, texts, _, _, vectors in written(path, base)
        for place, chunk in enumerate(unpacked_chunks(places, texts))
    ]


SECTIONS = st.lists(st.integers(0, 12), max_size=24)
"""A document: its sections, a chunk each; those of one number say the same."""
FILES = st.dictionaries(st.sampled_from("abcdef"), SECTIONS)


# Not shrunk: the examples are small, and shrinking one takes a hundred times as many runs.
@settings(max_examples=15, phases=set(Phase) - {Phase.shrink})
@given(FILES, FILES, st.lists(st.integers(-1, 40), min_size=1), st.none() | st.integers(0, 60))
def test_whoever_answers_when_the_same_is_written(
    first: Mapping[str, list[int]], then: Mapping[str, list[int]], ticks: list[int], fails_after: int | None
) -> None:
    """Of a base that is filled, changed and, after a failure, gone on with."""

    async def filled(folder: Path, base: str) -> list[Any]:
        found: list[Any] = []
        docs = folder / "docs"
        for files in (first, then):
            shutil.rmtree(docs, ignore_errors=True)
            docs.mkdir()
            for name, sections in files.items():
                write(docs, f"{name}.md", "\n\n".join(f"# {n}\n\nSays {n}." for n in sections))
            if found and fails_after is not None:
                async with knowledge(URL, folder, embedder=Noting(fails_after=fails_after)) as service:
                    with suppress(EmbeddingUnavailableError):
                        await service.add(base, [docs])
            async with knowledge(URL, folder, embedder=Noting()) as service:
                shown: list[Progress] = []
                done = await service.add(base, [docs], progress=shown.append)
                assert [each.chunks for each in shown] == sorted(each.chunks for each in shown)
                assert done.added + done.changed + done.unchanged == len(files)
                # How much a failed ingest leaves to do differs.
                found.append((done if not found or fails_after is None else None, shown[-1].files_done))
        return [*found, chunks(folder / "kb.db", base)]

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        with feigned(ticks):
            many = asyncio.run(filled(Path(folder), "many"))
        patch.setattr(ingest, "WORTH_BYTES", 1_000_000)
        assert many == asyncio.run(filled(Path(folder), "one"))
        first, fails_after = {}, None
        assert many[-1] == asyncio.run(filled(Path(folder), "afresh"))[-1]


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
    ended: list[int | None] = []

    class Seeing(Noting):
        async def embed(self, texts: Sequence[str], *, purpose: Any) -> Any:
            ended[:] = [each._process.returncode for each in workers if each._process]
            return await super().embed(texts, purpose=purpose)

    async with knowledge(URL, tmp_path, embedder=(model := Seeing())) as service:
        done = await service.add("book", [documents(tmp_path / "docs")])
    assert (done.chunks, done.embedded) == (80, len(model.texts))
    assert -signal.SIGKILL in ended


TABLE = "zeus_plugins.embeddings.static.embedder"


@pytest.mark.parametrize(
    ("factory", "why"),
    [
        (WorkerFactory(f"{TABLE}:StaticEmbedder", {"characters": False}), "it makes another model"),
        (WorkerFactory(f"{TABLE}:Other", {}), f"AttributeError: module '{TABLE}' has no attribute 'Other'"),
        (WorkerFactory("no.such.module:Other", {}), "ModuleNotFoundError: No module named 'no'"),
        (WorkerFactory("builtins:print", {}), "AttributeError: 'NoneType' object has no attribute 'model'"),
        (WorkerFactory("sys:exit", {}), "it ended"),
    ],
)
async def test_one_that_does_not_make_the_same_model_embeds_nothing_and_says_why(
    tmp_path: Path, workers: list[Worker], factory: WorkerFactory, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    model = Noting()
    model.worker = factory
    async with knowledge(URL, tmp_path, embedder=model) as service:
        done = await service.add("book", [documents(tmp_path / "docs")])
    assert len(workers) == 2
    assert (done.chunks, done.embedded) == (80, len(model.texts))
    assert [each.partition("is done without: ")[2] for each in done_without(caplog)] == [why] * 2


def done_without(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What is said of workers that could not be used."""
    return [each for each in caplog.messages if each.startswith("a worker of the embedding model static-")]


async def test_where_no_process_can_be_started_all_is_embedded_here(
    tmp_path: Path, workers: list[Worker], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    async with knowledge(URL, tmp_path, embedder=(model := Noting())) as service:
        done = await service.add("book", [documents(tmp_path / "docs")])
    assert (done.chunks, done.embedded) == (80, len(model.texts))
    assert len(done_without(caplog)) == 2
    assert "No such file" in done_without(caplog)[0]


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
        for path in docs.iterdir():
            os.utime(path, (1_000_000_000, 1_000_000_000))
        assert (await service.add("small", [])).unchanged == 3
        monkeypatch.setattr(ingest, "WORTH_BYTES", 1)
        assert (await service.add("small", [])).unchanged == 3
        assert not workers


async def test_a_given_up_ingest_leaves_no_worker(tmp_path: Path, workers: list[Worker]) -> None:
    class Failing(Noting):
        async def embed(self, texts: Sequence[str], *, purpose: Any) -> Any:
            raise KeyboardInterrupt

    async with knowledge(URL, tmp_path, embedder=Failing()) as service:
        docs = documents(tmp_path / "docs")
        long(docs, "00-long.md")
        with pytest.raises(KeyboardInterrupt):
            await service.add("book", [docs])
        assert [each._process.returncode for each in workers if each._process] == [-signal.SIGKILL] * 2
        # What was written stays, and the rest is done the next time.
        async with knowledge(URL, tmp_path) as another:
            done = await another.add("book", [])
            assert done.added + done.unchanged == 41


@asynccontextmanager
async def ready() -> AsyncIterator[Worker]:
    """A worker of the bundled table that takes orders."""
    model = StaticEmbedder()
    assert model.worker is not None
    worker = Worker(model, model.worker)
    try:
        assert await worker.is_ready()
        yield worker
    finally:
        await worker.close()


async def test_any_text_goes_there_and_comes_back_as_a_vector() -> None:
    async with ready() as there:
        first, second = there.embed(ODD), there.embed(ODD[::-1])
        assert not there.takes(2)
        expected = await StaticEmbedder().embed(ODD, purpose="memory")
        for vectors, wanted in ((await first, expected), (await second, expected[::-1])):
            assert vectors is not None
            assert vectors.tobytes() == wanted.tobytes()
        assert there.takes(1)
    assert not there.takes(1)


WIDE = """
import os, time
from zeus_plugins.embeddings.static.embedder import StaticEmbedder

class Wide(StaticEmbedder):
    dimension = 250_000

    def __init__(self):
        super().__init__()
        if not os.fork():
            with open("BEGUN", "w") as begun:
                begun.write(str(os.getpid()))
            time.sleep(600)

    async def embed(self, texts, *, purpose):
        import numpy as np
        return np.zeros((len(texts), self.dimension), np.float32)
"""


async def test_closing_waits_for_no_vectors_that_nobody_reads_and_ends_what_a_model_has_forked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "begun")
    write(tmp_path, "wide.py", WIDE.replace("BEGUN", str(tmp_path / "begun")))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    model = StaticEmbedder()
    monkeypatch.setattr(model, "dimension", 250_000)
    there = Worker(model, WorkerFactory("wide:Wide", {}))
    forked = os.pidfd_open(int(await asyncio.to_thread((tmp_path / "begun").read_bytes)))
    assert await there.is_ready()
    assert there._process is not None
    assert there._process.stdout is not None
    answer = there.embed(["word"] * 8)
    while not there._process.stdout._paused:  # type: ignore[attr-defined]
        assert not answer.done()
        await asyncio.sleep(0)
    async with asyncio.timeout(60):
        await there.close()
    assert there._process.returncode == -signal.SIGKILL
    assert select.select([forked], [], [], 60)[0]
    os.close(forked)


async def test_event_loops_that_know_no_process_groups_have_workers_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    execute = asyncio.create_subprocess_exec

    async def as_uvloop_does(*command: str, process_group: int | None = None, **named: Any) -> Any:
        if process_group is not None:
            raise ValueError("unexpected kwargs: process_group")
        return await execute(*command, **named)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", as_uvloop_does)
    async with ready() as there:
        assert there._process is not None
        assert os.getpgid(there._process.pid) != os.getpgrp(), "the terminal's Ctrl-C is not its own"


async def test_a_worker_has_no_secrets_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    async with ready() as there:
        assert there._process is not None
        environment = await asyncio.to_thread(Path(f"/proc/{there._process.pid}/environ").read_bytes)
        assert b"PATH=" in environment
        assert b"sk-very-secret" not in environment


KILLED = """
import asyncio, sys
from zeus_plugins.embeddings.static.embedder import StaticEmbedder
from zeus_runtime.plugin.embedding import WorkerFactory
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
    try:
        user.kill()
        user.wait()
        assert select.select([working], [], [], 60)[0]
    finally:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(working, signal.SIGKILL)
        os.close(working)
