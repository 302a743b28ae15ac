"""Work that waits for a reader in a process of its own, given up in the middle."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

import pytest

_SOON_SECONDS = 10
"""Far less than the reader's own time."""


async def given_up_while_it_reads(work: Coroutine[Any, Any, Any], patch: pytest.MonkeyPatch) -> int | None:
    """Begin ``work``, cancel it when its reader has been started, and give the reader's exit code; None: it goes on."""
    loop = asyncio.get_running_loop()
    reader: asyncio.Future[subprocess.Popen[bytes]] = loop.create_future()
    start = subprocess.Popen

    def started(*args: Any, **named: Any) -> subprocess.Popen[bytes]:
        process = start(*args, **named)
        if "zeus_runtime.tools.apart" in args[0]:
            loop.call_soon_threadsafe(reader.set_result, process)
        return process

    patch.setattr(subprocess, "Popen", started)
    task = asyncio.create_task(work)
    await asyncio.wait([task, reader], return_when=asyncio.FIRST_COMPLETED)
    assert not task.done()
    process = await reader
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    # Given up in the moment of its start, it is ended by the thread that started it.
    with suppress(subprocess.TimeoutExpired):
        return await asyncio.to_thread(process.wait, _SOON_SECONDS)
    return None
