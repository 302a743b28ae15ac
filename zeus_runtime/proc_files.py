"""Tells the files of a proc file system, wherever it is mounted: they show the memory and environment of processes."""

from __future__ import annotations

import errno
import os
import stat
import threading
from functools import lru_cache
from io import BufferedReader
from pathlib import Path
from typing import Final

_MOUNTS: Final = Path("/proc/self/mountinfo")


def is_proc(device: int) -> bool:
    """Whether a device (``st_dev``) is a proc file system."""
    # By process: after a fork the descriptor is shared, and one process would take the news of the other.
    return device in _mounted(os.getpid()).procs()


def has_end(status: os.stat_result) -> bool:
    """Whether a file can be read to its end: a pipe may have none, and ``/proc/self/pagemap`` has it after 256 GB."""
    return stat.S_ISREG(status.st_mode) and not is_proc(status.st_dev)


def opened(file: Path) -> BufferedReader:
    """A file that can be read to its end, opened for reading.

    Raises:
        OSError: it is none, or it cannot be read.
    """
    # A pipe would wait for its writer.
    unblocked = getattr(os, "O_NONBLOCK", 0)
    stream = open(file, "rb", opener=lambda path, flags: os.open(path, flags | unblocked))  # noqa: SIM115
    if not has_end(os.fstat(stream.fileno())):
        stream.close()
        raise OSError(errno.EINVAL, "it is no file of a disk", str(file))
    return stream


class _Mounted:
    """The proc file systems that are mounted, read again when a mount changes: Linux reuses the numbers of devices."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._descriptor = _opened()
        self._devices = _read()

    def procs(self) -> frozenset[int]:
        # Otherwise one thread could take the news, and another use the old devices before they are read again.
        with self._lock:
            if self._descriptor is not None and _has_changed(self._descriptor):
                # Read after the question: a mount that comes in between is read, and told once more.
                self._devices = _read()
            return self._devices


@lru_cache(maxsize=1)
def _mounted(process: int) -> _Mounted:
    return _Mounted()


def _opened() -> int | None:
    try:
        return os.open(_MOUNTS, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    except (FileNotFoundError, PermissionError):  # not Linux, or a system that closes it; other errors pass
        return None


def _has_changed(mounts: int) -> bool:
    """Whether a mount has changed since the file was opened, or since the last call (proc_pid_mounts(5))."""
    import select

    news = select.poll()
    news.register(mounts, select.POLLPRI)
    return bool(news.poll(0))


def _read() -> frozenset[int]:
    try:
        lines = _MOUNTS.read_bytes().splitlines()
    except (FileNotFoundError, PermissionError):
        return frozenset()
    # proc_pid_mountinfo(5): the third field is the device, the first one after ` - ` the type.
    found = [
        line.split(b" ", 3)[2].split(b":")
        for line in lines
        if line.partition(b" - ")[2].split(b" ", 1)[0] == b"proc"
    ]
    return frozenset(os.makedev(int(major), int(minor)) for major, minor in found)
