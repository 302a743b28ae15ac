"""Work that waits for a reader in a process of its own, given up in the middle."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

import pytest

from zeus_runtime.tools import worker_process as apart


async def given_up_while_it_reads(work: Coroutine[Any, Any, Any], patch: pytest.MonkeyPatch) -> int | None:
    """Begin ``work``, cancel it when its reader has its order, and give the reader's exit code; None: it goes on."""
    loop = asyncio.get_running_loop()
    reader: asyncio.Future[subprocess.Popen[bytes]] = loop.create_future()
    start, read = subprocess.Popen, apart._read
    readers: list[subprocess.Popen[bytes]] = []

    def started(*args: Any, **named: Any) -> subprocess.Popen[bytes]:
        process = start(*args, **named)
        if "zeus_runtime.tools.worker_process" in args[0]:
            readers.append(process)
        return process

    def waiting(stream: Any) -> bytes | None:
        loop.call_soon_threadsafe(reader.set_result, readers[-1])
        return read(stream)

    patch.setattr(subprocess, "Popen", started)
    patch.setattr(apart, "_read", waiting)
    task = asyncio.create_task(work)
    await asyncio.wait([task, reader], return_when=asyncio.FIRST_COMPLETED)
    assert not task.done()
    process = await reader
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    return process.poll()
