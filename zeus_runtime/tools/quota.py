"""How much a workspace may hold: bytes and files, counted with each write and not by a scan for each."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import WeakValueDictionary

from zeus_runtime.disk_paths import real_path
from zeus_runtime.tools.mounts import parts_below
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


class _Limit(NamedTuple):
    """The most that a folder may hold; None for any."""

    bytes: int | None
    files: int | None

    def and_(self, other: _Limit) -> _Limit:
        return _Limit(_least(self.bytes, other.bytes), _least(self.files, other.files))

    def excess(self, held: Held) -> str | None:
        if self.bytes is not None and held.bytes > self.bytes:
            return f"{held.bytes:,} bytes, where {self.bytes:,} are allowed"
        if self.files is not None and held.files > self.files:
            return f"{held.files:,} files, where {self.files:,} are allowed"
        return None


def _least(*given: int | None) -> int | None:
    return min((each for each in given if each is not None), default=None)


class Quota:
    """The most that the files below a folder may be. Safe to use from many threads; agents of a process share a count.

    Args:
        root: the folder.
        max_bytes: the sizes of its files together; None for any.
        max_files: how many; None for any number. Folders do not count.
        spare: a folder whose files do not count: that in which Zeus keeps its own.
        above: the quota of the agent above, which holds for what is written below its root too.
    """

    def __init__(
        self,
        root: Path,
        *,
        max_bytes: int | None = None,
        max_files: int | None = None,
        spare: Path | None = None,
        above: Quota | None = None,
    ) -> None:
        limit = _Limit(max_bytes, max_files)
        with _counts_lock:
            count = _counts.get(root) or _counts.setdefault(root, _Count(root, spare))
        self._limits: dict[_Count, _Limit] = {} if above is None else {**above._limits}
        self._limits[count] = limit.and_(self._limits.get(count, limit))

    @contextmanager
    def taking(self, more_bytes: int, more_files: int, at: str | None = None) -> Iterator[None]:
        """Count a write that happens inside; a write that frees space is never refused.

        Args:
            at: the real path of the file; it counts for the folders that contain it. None: for all.

        Raises:
            WorkspaceError: it would exceed the quota; nothing is written.
        """
        with ExitStack() as taken:
            for count, limit in self._limits.items():
                if at is None or count.has(at):
                    taken.enter_context(count.taking(Held(more_bytes, more_files), limit))
            yield

    def forget(self) -> None:
        """Count anew before the next write: something else may have written."""
        # Not under the lock: this is called on an event loop, and a scan of many files may hold it.
        for count in self._limits:
            count.is_stale = True

    def problem(self) -> str | None:
        """Why the files are too large now, counted anew; None if they are not. Blocks on the disk."""
        found = None
        for count, limit in self._limits.items():
            with count.lock:
                found = limit.excess(count.scan()) or found
        return found


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

    def has(self, file: str) -> bool:
        """Whether the file at a real path is in the folder."""
        return parts_below(real_path(self.root), file) is not None

    @contextmanager
    def taking(self, change: Held, limit: _Limit) -> Iterator[None]:
        more = Held(max(0, change.bytes), max(0, change.files))
        with self.lock:
            after = self.now().plus(change)
            if any(more) and (why := limit.excess(after)):
                raise WorkspaceError(
                    f"The workspace would be too large: {why}. Nothing was written.",
                    remedy="Remove files that are not needed, or write less.",
                )
            # Counted before it is written, so that two writers at once cannot both take the last room.
            self.held = after
            self.being_written = self.being_written.plus(more)
            scans = self.scans
        whole = False
        try:
            yield
            whole = True
        finally:
            with self.lock:
                self.being_written = self.being_written.minus(more)
                # The write may have failed halfway, or a scan meanwhile have found a part of it: only a new scan knows
                # how much is there.
                if not whole or self.scans != scans:
                    self.held = None

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
