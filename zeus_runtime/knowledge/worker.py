"""A worker process that embeds the texts of an ingest, on another processor.

Texts are sent as JSON and vectors come back in the order of the requests, each preceded by its size. The worker first
reports its model. It gets no secrets of this process, and ends with it.
"""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import signal
import struct
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime.cutting import cut_text
from zeus_runtime.tools.worker_process import ENVIRONMENT, PIPE_BYTES, end_with, started

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zeus_runtime.memory.embedding import Embedder, WorkerFactory

_log = logging.getLogger(__name__)

_SIZE: Final = struct.Struct("!Q")
_ONE_THREAD: Final = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""Further processors are further workers'."""
_KERNEL: Final = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "MKL_ENABLE_INSTRUCTIONS", "MKL_CBWR")
"""These choose the routine that multiplies matrices. With another one, a worker's vectors differ in the last digits."""


class Worker:
    """One process. It takes orders once it has its model.

    Args:
        embedder: whose model it makes too.
        factory: how.
    """

    def __init__(self, embedder: Embedder, factory: WorkerFactory) -> None:
        self._embedder = embedder
        self._factory = _framed(json.dumps(asdict(factory)).encode())
        self._process: asyncio.subprocess.Process | None = None
        self._orders: deque[tuple[int, asyncio.Future[NDArray[np.float32] | None]]] = deque()
        self._begun: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._is_open = False
        self._running = asyncio.create_task(self._run())
        self._running.add_done_callback(self._over)

    async def is_ready(self) -> bool:
        """Wait until it takes orders; False: it never will."""
        # Shielded: the cancellation of one that waits would cancel the future for all.
        return await asyncio.shield(self._begun)

    def takes(self, at_most: int) -> bool:
        """Whether it takes orders and has fewer than so many."""
        return self._is_open and len(self._orders) < at_most

    def embed(self, texts: Sequence[str]) -> asyncio.Future[NDArray[np.float32] | None]:
        """The texts' vectors, float32, shape (texts, dimension); None if it ends before it has them."""
        assert self._process is not None
        assert self._process.stdin is not None
        future = asyncio.get_running_loop().create_future()
        self._orders.append((len(texts), future))
        # Two adjacent lone surrogates are two characters; JSON's escapes would join them into one.
        order = json.dumps(texts, ensure_ascii=False).encode("utf-8", "surrogatepass")
        # Of a program that has ended, uvloop's `write` would raise; `_over` answers the order.
        if not self._process.stdin.is_closing():
            # Not drained: the caller gives a worker few orders at a time (`takes`), so little waits in the buffer.
            self._process.stdin.write(_framed(order))
        return future

    def end(self) -> None:
        """End it, whatever it is doing; that takes a moment."""
        # A second cancellation would break off the end of the process in `_run`.
        if not self._running.cancelling():
            self._running.cancel()

    async def close(self) -> None:
        """End it, and wait until it has ended."""
        self.end()
        await asyncio.wait([self._running])
        if not self._running.cancelled():
            self._running.result()

    async def _run(self) -> None:
        try:
            named = (name for name in (*ENVIRONMENT, *_KERNEL) if name in os.environ)
            self._process = await started(__name__, {name: os.environ[name] for name in named} | _ONE_THREAD)
            await self._answers(self._process)
        except (OSError, RuntimeError, EOFError, ValueError, LookupError) as error:
            # It cannot be started (not every event loop can), has ended, or says something else than vectors: its user
            # embeds without it.
            why = "it ended" if isinstance(error, EOFError) else str(error) or type(error).__name__
            _log.warning("a worker of the embedding model %s is done without: %s", self._embedder.model, why)
        finally:
            self._is_open = False
            if self._process is not None:
                await _ended(self._process)

    def _over(self, _: object) -> None:
        if not self._begun.done():
            self._begun.set_result(False)
        for _, future in self._orders:
            if not future.done():
                future.set_result(None)
        self._orders.clear()

    async def _answers(self, process: asyncio.subprocess.Process) -> None:
        import numpy as np

        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(self._factory)
        said = json.loads(await _frame(process.stdout))
        if said != [self._embedder.model, self._embedder.dimension]:
            raise ValueError(said if isinstance(said, str) else "it makes another model")
        self._is_open = True
        self._begun.set_result(True)
        while True:
            data = await _frame(process.stdout)
            # Taken off below, when its answer has the right size: until then `_over` answers it with None.
            texts, future = self._orders[0]
            vectors = np.frombuffer(data, "<f4").reshape(texts, self._embedder.dimension)
            self._orders.popleft()
            # The ingest may have given up and cancelled it.
            if not future.done():
                future.set_result(vectors)


async def _ended(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        if os.name == "posix" and process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)  # including the processes that a model forked
        else:
            process.kill()
    # Before Python 3.13 `wait` waits for the pipes too: for texts that nobody reads, for vectors that nobody does, and
    # for what has left its session. Nothing public closes the one that is read from.
    assert process.stdin is not None
    if not process.stdin.transport.is_closing():
        process.stdin.transport.abort()
    process._transport.get_pipe_transport(1).close()  # type: ignore[attr-defined]
    await process.wait()


def _framed(data: bytes) -> bytes:
    return _SIZE.pack(len(data)) + data


async def _frame(stream: asyncio.StreamReader) -> bytes:
    (size,) = _SIZE.unpack(await stream.readexactly(_SIZE.size))
    return await stream.readexactly(size)


def _serve(user: int) -> None:
    end_with(user)
    # Without a buffer, so that each answer is on its way at once.
    answers = io.FileIO(os.dup(1), "wb")
    # Output that a library prints must not be mixed with the vectors.
    os.dup2(2, 1)
    _widen(sys.stdin.fileno(), answers.fileno())
    orders = _read(sys.stdin.buffer)
    factory = json.loads(next(orders))
    module, _, function = factory["function"].partition(":")
    try:
        embedder: Embedder = getattr(import_module(module), function)(**factory["arguments"])
        said = json.dumps([embedder.model, embedder.dimension])
    except Exception as error:  # noqa: BLE001 - whatever keeps it from making the model is told its user
        _write(answers, json.dumps(f"{type(error).__name__}: {cut_text(str(error), 200)}").encode())
        return
    _write(answers, said.encode())
    asyncio.run(_embed(embedder, orders, answers))


async def _embed(embedder: Embedder, orders: Iterator[bytes], answers: io.FileIO) -> None:
    for order in orders:
        vectors = await embedder.embed(json.loads(order), purpose="memory")
        _write(answers, vectors.astype("<f4", copy=False).tobytes())


def _read(stream: Any) -> Iterator[bytes]:
    while len(head := stream.read(_SIZE.size)) == _SIZE.size:
        (size,) = _SIZE.unpack(head)
        if len(data := stream.read(size)) < size:
            return
        yield data


def _write(stream: io.FileIO, data: bytes) -> None:
    whole = memoryview(_framed(data))
    while whole:
        whole = whole[stream.write(whole) or 0 :]


def _widen(*pipes: int) -> None:
    try:
        from fcntl import F_SETPIPE_SZ, fcntl
    except ImportError:
        return
    for pipe in pipes:
        with suppress(OSError):  # a user may have so much of it in all
            fcntl(pipe, F_SETPIPE_SZ, PIPE_BYTES)


if __name__ == "__main__":
    with suppress(BrokenPipeError):  # the parent has ended
        _serve(int(sys.argv[1]))
