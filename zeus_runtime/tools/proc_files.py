"""Tells the files of a proc file system, wherever it is mounted: they show the memory and environment of processes."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Final

_MOUNTS: Final = Path("/proc/self/mountinfo")
_MOST_DEVICES: Final = 4_096


@lru_cache(maxsize=_MOST_DEVICES)
def is_proc(device: int) -> bool:
    """Whether a device (``st_dev``) is a proc file system; the mounts are read once for each device."""
    try:
        lines = _MOUNTS.read_bytes().splitlines()
    except (FileNotFoundError, PermissionError):  # not Linux, or a system that closes it; other errors pass
        return False
    number = f"{os.major(device)}:{os.minor(device)}".encode()
    # proc_pid_mountinfo(5): the third field is the device, the first one after ` - ` the type.
    return any(
        line.split(b" ", 3)[2] == number and line.partition(b" - ")[2].split(b" ", 1)[0] == b"proc"
        for line in lines
    )
