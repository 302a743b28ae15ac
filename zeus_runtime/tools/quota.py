"""How much a workspace may hold: bytes and files, counted with each write and not by a scan for each."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import WeakValueDictionary

from zeus_runtime.tools.paths import WorkspaceError

if TYPE_CHECKING:
    from zeus_runtime.tools.tool import Category

COUNTED: Final[frozenset[Category]] = frozenset(
    ("builtin", "filesystem", "todos", "memory", "rag", "web", "skills")
)
"""The tools that write by ``WorkspaceFiles`` alone. After any other, the files are counted anew."""
PROGRAMS: Final[frozenset[Category]] = frozenset(("shell", "sandbox"))
"""The tools that run programs, after which the quota is checked."""


class Held(NamedTuple):
    """What a folder holds: the bytes of its files, and how many they are."""

    bytes: int
    files: int

    def plus(self, other: Held) -> Held:
        return Held(self.bytes + other.bytes, self.files + other.files)

    def minus(self, other: Held) -> Held:
        return Held(self.bytes - other.bytes, self.files - other.files)


class Quota:
    """The most that the files below a folder may be. Safe to use from many threads; agents of a process share a count.

    Args:
        root: the folder.
        max_bytes: the sizes of its files together; None for any.
        max_files: how many; None for any number. Folders do not count.
        spare: a folder whose files do not count: that in which Zeus keeps its own.
    """

    def __init__(
        self,
        root: Path,
        *,
        max_bytes: int | None = None,
        max_files: int | None = None,
        spare: Path | None = None,
    ) -> None:
        self._max_bytes = max_bytes
        self._max_files = max_files
        with _counts_lock:
            self._count = _counts.get(root) or _counts.setdefault(root, _Count(root, spare))

    @contextmanager
    def taking(self, more_bytes: int, more_files: int) -> Iterator[None]:
        """Count a write that happens inside; a write that frees space is never refused.

        Raises:
            WorkspaceError: it would exceed the quota; nothing is written.
        """
        count = self._count
        more = Held(max(0, more_bytes), max(0, more_files))
        with count.lock:
            held = count.now()
            after = held.plus(Held(more_bytes, more_files))
            if any(more) and (why := self._excess(after)):
                raise WorkspaceError(
                    f"The workspace would be too large: {why}. Nothing was written.",
                    remedy="Remove files that are not needed, or write less.",
                )
            # Counted before it is written, so that two writers at once cannot both take the last room.
            count.held = after
            count.being_written = count.being_written.plus(more)
            scans = count.scans
        whole = False
        try:
            yield
            whole = True
        finally:
            with count.lock:
                count.being_written = count.being_written.minus(more)
                # The write may have failed halfway, or a scan meanwhile have found a part of it: only a new scan knows
                # how much is there.
                if not whole or count.scans != scans:
                    count.held = None

    def forget(self) -> None:
        """Count anew before the next write: something else may have written."""
        # Not under the lock: this is called on an event loop, and a scan of many files may hold it.
        self._count.is_stale = True

    def problem(self) -> str | None:
        """Why the files are too large now, counted anew; None if they are not. Blocks on the disk."""
        with self._count.lock:
            return self._excess(self._count.scan())

    def _excess(self, held: Held) -> str | None:
        if self._max_bytes is not None and held.bytes > self._max_bytes:
            return f"{held.bytes:,} bytes, where {self._max_bytes:,} are allowed"
        if self._max_files is not None and held.files > self._max_files:
            return f"{held.files:,} files, where {self._max_files:,} are allowed"
        return None


class _Count:
    """What a folder holds, as far as it is known."""

    def __init__(self, root: Path, spare: Path | None) -> None:
        self.root = root
        self.spare = spare
        self.lock = threading.Lock()
        self.held: Held | None = None
        self.is_stale = False
        self.being_written = Held(0, 0)
        """Of writes that have begun; a scan may find none of it, some of it, or all."""
        self.scans = 0

    def now(self) -> Held:
        if self.held is None or self.is_stale:
            self.scan()
        assert self.held is not None
        return self.held

    def scan(self) -> Held:
        """What is there now. Writes that have begun are added to what is known, as a scan may not find them yet."""
        # Before the scan, as something may be written while it lasts.
        self.is_stale = False
        found = _scanned(self.root, self.spare)
        self.held = found.plus(self.being_written)
        self.scans += 1
        return found


_counts: WeakValueDictionary[Path, _Count] = WeakValueDictionary()
_counts_lock = threading.Lock()


def _scanned(root: Path, spare: Path | None) -> Held:
    """Links are not followed; a file that vanishes meanwhile does not count."""
    size = number = 0
    for folder, below, names in os.walk(root):
        below[:] = [each for each in below if spare is None or spare != Path(folder, each)]
        for name in names:
            try:
                status = Path(folder, name).lstat()
            except OSError:
                continue
            number += 1
            size += status.st_size if stat.S_ISREG(status.st_mode) else 0
    return Held(size, number)
