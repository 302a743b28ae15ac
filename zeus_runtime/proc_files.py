"""Opens no file without an end, such as those of a proc file system, wherever it is mounted."""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path

from zeus_runtime.mount_table import mount_table


def is_proc(device: int) -> bool:
    """Whether a device (``st_dev``) is a proc file system."""
    return device in mount_table().procs


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
