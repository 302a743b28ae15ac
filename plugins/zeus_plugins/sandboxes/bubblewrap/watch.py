"""What a running sandbox takes, seen from outside: memory of all processes and sockets together, and files made.

The kernel limits one process's memory and the bytes of each file system by itself. What many processes take together,
and how many files there are, has no limit without a control group that this process may make; so it is looked at.
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
"""How long finding out what is shared may take; a program can make it slow."""


async def exceeded(first: int, folders: Sequence[int], limits: SandboxLimits) -> SandboxLimit | None:
    """The limit that the processes below the host's pid ``first`` are beyond by now.

    Args:
        folders: the open roots of the file systems that they write to.
    """
    if any(_files(folder) > limits.files for folder in folders):
        return "files"
    return "memory" if await take_more([first], limits.memory_bytes - socket_bytes(first)) else None


async def take_more(firsts: Sequence[int], memory_bytes: int) -> bool:
    """Whether these processes and all below them take more memory together."""
    if sum(map(_memory, firsts)) <= memory_bytes:
        return False
    # Forked processes share what neither wrote to since, which is dear to find out.
    return sum(await asyncio.gather(*(asyncio.to_thread(_shares, each) for each in firsts))) > memory_bytes


def _files(folder: int) -> int:
    status = os.fstatvfs(folder)
    return status.f_files - status.f_ffree - _ROOT_ITSELF


def _memory(first: int) -> int:
    """Bytes that the process ``first`` and all below it take, what several share counted for each of them."""
    return sum(_counted(threads, "status", _OWN) for threads in processes(first))


def _shares(first: int) -> int:
    """As ``_memory``, what several share counted once, as far as the kernel says it in time."""
    total = 0
    until = monotonic() + _SHARE_SECONDS
    for threads in processes(first):
        share = _counted(threads, "smaps_rollup", _SHARE) if monotonic() < until else 0
        total += _counted(threads, "status", _TABLES if share else _OWN) + share
    return total


def processes(first: int) -> Iterator[Sequence[str]]:
    """The process ``first`` and all below it, each as the folders of its threads in ``/proc``; at least one."""
    pending, seen = [first], {first}
    while pending:
        pid = pending.pop()
        with suppress(OSError):
            threads = [f"/proc/{pid}/task/{each}" for each in os.listdir(f"/proc/{pid}/task")]  # noqa: PTH208
            if threads:  # none while it is being reaped
                yield threads
            for thread in threads:
                with suppress(OSError):
                    for child in map(int, _read(f"{thread}/children").split()):
                        if child not in seen:
                            seen.add(child)
                            pending.append(child)


def _counted(threads: Sequence[str], file: str, names: tuple[bytes, ...]) -> int:
    """The sum of these lines, in bytes; of the first thread that has them: one that ended has no memory to show."""
    for thread in threads:
        with suppress(OSError, ValueError):
            lines = [line for line in _read(f"{thread}/{file}").splitlines() if line.startswith(names)]
            if lines:
                return sum(int(line.split()[1]) * 1024 for line in lines)
    return 0


def _read(path: str) -> bytes:
    with open(path, "rb") as file:  # noqa: PTH123 - a few hundred times a second
        return file.read()
