"""Measures a running sandbox from outside: the memory of all processes and sockets together, and the number of files.

The kernel limits the memory of each process and the bytes of each file system. Without a control group it does not
limit the memory of all processes together and the number of files, so these are checked here.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from time import monotonic
from typing import Final

from zeus_plugins.sandboxes.bubblewrap.sockets import socket_bytes
from zeus_runtime.plugin.sandbox import SandboxLimit, SandboxLimits

INTERVAL_SECONDS: Final = 0.05
_ROOT_ITSELF: Final = 1
_TABLES: Final = (b"VmPTE:",)
_OWN: Final = (b"RssAnon:", b"VmSwap:", *_TABLES)
_SHARE: Final = (b"Pss_Anon:", b"SwapPss:")
_SHARE_SECONDS: Final = 0.5
"""Time limit for measuring shared memory, which a program can make slow."""


async def exceeded(first: int, folders: Sequence[int], limits: SandboxLimits) -> SandboxLimit | None:
    """Return the limit that the processes below the host's pid ``first`` exceed; None if they exceed none.

    Args:
        folders: the open roots of the file systems that they write to.
    """
    if any(_files(folder) > limits.files for folder in folders):
        return "files"
    return "memory" if await take_more([first], limits.memory_bytes - socket_bytes(first)) else None


async def take_more(firsts: Sequence[int], memory_bytes: int) -> bool:
    """Whether these processes and their descendants together take more memory than ``memory_bytes``."""
    # This sum is never too small and costs little, so most checks end here.
    if sum(map(_memory, firsts)) <= memory_bytes:
        return False
    # Forked processes share the pages that neither has written to; measuring this is expensive.
    return sum(await asyncio.gather(*(asyncio.to_thread(_shares, each) for each in firsts))) > memory_bytes


def _files(folder: int) -> int:
    status = os.fstatvfs(folder)
    return status.f_files - status.f_ffree - _ROOT_ITSELF


def _memory(first: int) -> int:
    """Return the bytes of the process ``first`` and its descendants; shared memory counts for each of them."""
    return sum(_counted(threads, "status", _OWN) for threads in processes(first))


def _shares(first: int) -> int:
    """Return the same as ``_memory``, but count shared memory once, as far as the kernel answers in time."""
    total = 0
    until = monotonic() + _SHARE_SECONDS
    for threads in processes(first):
        share = _counted(threads, "smaps_rollup", _SHARE) if monotonic() < until else 0
        total += _counted(threads, "status", _TABLES if share else _OWN) + share
    return total


def processes(first: int) -> Iterator[Sequence[str]]:
    """Yield ``first`` and its descendants, each as its threads' folders in ``/proc`` (at least one)."""
    pending, seen = [first], {first}
    while pending:
        pid = pending.pop()
        with suppress(OSError):
            threads = [f"/proc/{pid}/task/{each}" for each in os.listdir(f"/proc/{pid}/task")]  # noqa: PTH208
            if threads:  # there are none while the process is being reaped
                yield threads
            # Each thread lists only the children that it started itself.
            for thread in threads:
                with suppress(OSError):
                    for child in map(int, _read(f"{thread}/children").split()):
                        # A process whose parent dies between two reads moves to another parent, and is met again.
                        if child not in seen:
                            seen.add(child)
                            pending.append(child)


def _counted(threads: Sequence[str], file: str, names: tuple[bytes, ...]) -> int:
    """Return the sum of these lines in bytes, from the first thread that has them: ended threads have none."""
    for thread in threads:
        with suppress(OSError, ValueError):
            lines = [line for line in _read(f"{thread}/{file}").splitlines() if line.startswith(names)]
            if lines:
                return sum(int(line.split()[1]) * 1024 for line in lines)
    return 0


def _read(path: str) -> bytes:
    with open(path, "rb") as file:  # noqa: PTH123 - a few hundred times a second
        return file.read()
