"""What a running sandbox takes, seen from outside: memory of all processes together, and files made.

The kernel limits one process's memory and the bytes of each file system by itself. What many processes take together,
and how many files there are, has no limit without a control group that this process may make; so it is looked at.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from zeus_runtime import SandboxLimit, SandboxLimits

INTERVAL_SECONDS: Final = 0.05
_COUNTED: Final = (b"RssAnon:", b"VmSwap:", b"VmPTE:")
_SHARED: Final = (b"/dev/zero (deleted)", b"/memfd:", b"/SYSV")


def exceeded(first: int, folders: Sequence[int], limits: SandboxLimits) -> SandboxLimit | None:
    """The limit that the processes below the host's pid ``first`` are beyond by now.

    Args:
        folders: the open roots of the file systems that they write to.
    """
    if any(_files(folder) > limits.files for folder in folders):
        return "files"
    if memory(first) > limits.memory_bytes:
        return "memory"
    return None


def _files(folder: int) -> int:
    status = os.fstatvfs(folder)
    return status.f_files - status.f_ffree


def memory(first: int) -> int:
    """Bytes that the process ``first`` and all below it take together."""
    total = 0
    shared: dict[bytes, int] = {}
    pending, seen = [first], {first}
    while pending:
        pid = pending.pop()
        with suppress(OSError, ValueError):
            total += sum(
                int(line.split()[1]) * 1024
                for line in _read(f"/proc/{pid}/status").splitlines()
                if line.startswith(_COUNTED)
            )
            for line in _read(f"/proc/{pid}/maps").splitlines():
                if any(each in line for each in _SHARED):
                    span, _, _, _, inode, *_ = line.split(maxsplit=5)
                    start, end = (int(each, 16) for each in span.split(b"-"))
                    shared[inode] = max(shared.get(inode, 0), end - start)
            for thread in Path(f"/proc/{pid}/task").iterdir():
                for child in map(int, _read(f"{thread}/children").split()):
                    if child not in seen:
                        seen.add(child)
                        pending.append(child)
    return total + sum(shared.values())


def _read(path: str) -> bytes:
    with open(path, "rb") as file:  # noqa: PTH123 - a few hundred times a second
        return file.read()
