"""The vectors of an ingest's texts: reused if known, computed here, or in worker processes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Final

import numpy as np

from zeus_runtime.errors import ZeusError
from zeus_runtime.knowledge.worker import Worker
from zeus_runtime.tools.worker_process import processors

if TYPE_CHECKING:
    from zeus_runtime.memory.embedding import Embedder, Vectors

_log = logging.getLogger(__name__)

WORTH_BYTES: Final = 4_000_000
"""Of files, from which on an ingest has workers: to start one takes as long as to embed 1 to 3 MB."""
WORKERS: Final = 2
"""At most, beside this process, which reads, cuts and writes for them; and none on a machine's only processor."""

_ORDERS: Final = 2
"""Of one worker at a time: while it is at one the other is on its way."""
_ANSWER_SECONDS: Final = 600


class IngestEmbedding:
    """Embed the texts of one ingest. Use it with ``async with``, which ends the workers.

    A worker with room embeds a text; otherwise this process does, so it is never idle while work is left. Texts that a
    worker does not answer are embedded here too.

    Args:
        embedder: the model; workers are possible only if it has a worker factory.
        workers: how many to start.

    Attributes:
        asked: texts whose vector was requested.
    """

    def __init__(self, embedder: Embedder, *, workers: int) -> None:
        self.asked = 0
        self._embedder = embedder
        self._workers = (
            []
            if embedder.worker is None
            else [Worker(embedder, embedder.worker) for _ in range(min(workers, processors() - 1))]
        )
        self._tasks: set[asyncio.Future[Vectors]] = set()

    async def __aenter__(self) -> IngestEmbedding:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Before the workers end: a task whose worker ends would embed its texts here.
        for task in self._tasks:
            task.cancel()
        for worker in self._workers:
            worker.end()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(each.close() for each in self._workers))

    async def begun(self, texts: Sequence[str], reused: Mapping[str, bytes]) -> asyncio.Future[Vectors]:
        """The texts' vectors, shape (texts, dimension); they are there already where no worker has the texts.

        Args:
            reused: text to vector, four bytes a number, of those that need not be embedded.

        Raises:
            EmbeddingUnavailableError: the model cannot be asked now.
        """
        wanted = _Wanted(texts, reused)
        worker = next((each for each in self._workers if each.takes(_ORDERS)), None)
        if worker is not None and wanted.unknown:
            # Ordered now: a later request sees this worker's load before the task's first step.
            task = asyncio.create_task(self._from(worker, worker.embed(wanted.unknown), wanted))
            self._tasks.add(task)
            task.add_done_callback(self._over)
            return task
        done: asyncio.Future[Vectors] = asyncio.get_running_loop().create_future()
        done.set_result(await self._here(wanted))
        return done

    def _over(self, task: asyncio.Future[Vectors]) -> None:
        self._tasks.discard(task)
        # If the ingest failed earlier, this exception is never retrieved, and the event loop would report it as an
        # error.
        if not task.cancelled():
            task.exception()

    async def _from(self, worker: Worker, answer: asyncio.Future[Vectors | None], wanted: _Wanted) -> Vectors:
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                embedded = await answer
        except TimeoutError:
            _log.warning(
                "a worker of the embedding model %s is done without: it does not answer", self._embedder.model
            )
            await worker.close()
            embedded = None
        if embedded is None:
            return await self._here(wanted)
        self.asked += len(embedded)
        return wanted.rows(embedded)

    async def _here(self, wanted: _Wanted) -> Vectors:
        dimension = self._embedder.dimension
        if not wanted.unknown:
            return wanted.rows(np.zeros((0, dimension), np.float32))
        embedded = await self._embedder.embed(wanted.unknown, purpose="memory")
        if embedded.shape != (len(wanted.unknown), dimension):
            raise ZeusError(
                f"the embedding model {self._embedder.model} gave vectors of shape {embedded.shape} for"
                f" {len(wanted.unknown)} texts of dimension {dimension}"
            )
        self.asked += len(embedded)
        return wanted.rows(embedded)


class _Wanted:
    """Some texts, and what is known of their vectors.

    Attributes:
        unknown: the texts without a vector, each once.
    """

    def __init__(self, texts: Sequence[str], reused: Mapping[str, bytes]) -> None:
        self._texts = texts
        self._reused = reused
        self._distinct = dict.fromkeys(texts)
        self.unknown = [text for text in self._distinct if text not in reused]

    def rows(self, embedded: Vectors) -> Vectors:
        """The vectors of all texts, with those of ``unknown``."""
        if len(self.unknown) == len(self._texts):
            return embedded
        known = [text for text in self._distinct if text in self._reused]
        stored = np.frombuffer(b"".join([self._reused[text] for text in known]), "<f4")
        place = {text: place for place, text in enumerate((*self.unknown, *known))}
        rows = np.concatenate((embedded, stored.reshape(len(known), embedded.shape[1])))
        return rows[[place[text] for text in self._texts]]
