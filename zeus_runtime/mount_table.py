"""What is mounted where (Linux), read again when a mount changes."""

from __future__ import annotations

import os
import re
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from zeus_runtime.disk_paths import is_in

_MOUNTS: Final = Path("/proc/self/mountinfo")


class _Mount(NamedTuple):
    device: str
    root: str
    at: str
    kind: str


class MountTable:
    """The mounts of this process at one moment.

    Args:
        text: as the system lists them; empty where it does not.
    """

    def __init__(self, text: str) -> None:
        self._mounts = [*map(_mount, filter(None, text.split("\n")))]
        devices = Counter(each.device for each in self._mounts)
        self._shared = [each for each in self._mounts if devices[each.device] > 1]

    @cached_property
    def procs(self) -> frozenset[int]:
        """The devices (``st_dev``) that are proc file systems, whose files show the memory of processes."""
        found = [each.device.split(":") for each in self._mounts if each.kind == "proc"]
        return frozenset(os.makedev(int(major), int(minor)) for major, minor in found)

    @lru_cache(maxsize=256)  # noqa: B019 - there are few tables, and each tool call of each agent asks
    def has_once(self, places: tuple[str, ...]) -> bool:
        """Whether the system lists its mounts, and none shows something of these places, or above them, again.

        Args:
            places: real paths.
        """
        # By each mount around a place, and not only by the innermost: that one may be hidden by a later one above it.
        pairs = ((place, each) for place in places for each in self._shared if is_in(place, each.at))
        return bool(self._mounts) and not any(any(self._again(*pair)) for pair in pairs)

    def again(self, folders: Iterable[Path]) -> Iterator[Path]:
        """The other places where what is in these folders is mounted, and where they are if they are in one.

        Args:
            folders: real paths.
        """
        for folder in map(str, folders):
            within = [each for each in self._mounts if is_in(folder, each.at)]
            if within:
                # The innermost; of several at one place, the last is the one that is seen.
                own = max(reversed(within), key=lambda each: len(each.at))
                yield from map(Path, self._again(folder, own))

    def _again(self, folder: str, own: _Mount) -> Iterator[str]:
        place = own.root.rstrip("/") + folder.removeprefix(own.at.rstrip("/"))
        for each in self._mounts:
            if each.device != own.device or each == own:
                continue
            if is_in(each.root, place):
                yield each.at
            elif is_in(place, each.root):
                yield each.at.rstrip("/") + place.removeprefix(each.root.rstrip("/"))


def mount_table() -> MountTable:
    """The present mounts of this process."""
    # By process: after a fork the descriptor is shared, and one process would take the news of the other.
    return _process_mounts(os.getpid()).now()


class _ProcessMounts:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._descriptor = _opened()
        self._table = _read()

    def now(self) -> MountTable:
        # Otherwise one thread could take the news, and another use the old table before it is read again.
        with self._lock:
            if self._descriptor is not None and _has_changed(self._descriptor):
                # Read after the question: a mount that comes in between is read, and told once more.
                self._table = _read()
            return self._table


@lru_cache(maxsize=1)
def _process_mounts(process: int) -> _ProcessMounts:
    return _ProcessMounts()


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


def _read() -> MountTable:
    try:
        return MountTable(_MOUNTS.read_text(encoding="utf-8", errors="surrogateescape"))
    except (FileNotFoundError, PermissionError):
        return MountTable("")


def _mount(line: str) -> _Mount:
    # proc_pid_mountinfo(5): the third field is the device, the first one after ` - ` the type.
    fields, _, rest = line.partition(" - ")
    _, _, device, root, at, *_ = fields.split(" ")
    return _Mount(device, _plain(root), _plain(at), rest.partition(" ")[0])


def _plain(text: str) -> str:
    """A path as it is: the table has a space as ``\\040``."""
    if "\\" not in text:
        return text
    octal = re.sub(rb"\\([0-7]{3})", lambda found: bytes([int(found[1], 8)]), os.fsencode(text))
    return os.fsdecode(octal)
