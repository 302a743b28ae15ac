"""A walk to a place below an open folder, one component at a time, that no link leads out of."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from zeus_runtime.disk_paths import real_path
from zeus_runtime.escaping import printable
from zeus_runtime.frozen import dataclass
from zeus_runtime.tools.paths import WorkspaceError, join
from zeus_runtime.tools.second_names import is_unlisted

Guard: TypeAlias = Callable[[tuple[str, ...], int, tuple[str, ...]], None]
"""Raises where a place must not be reached.

It is given the canonical virtual path (links resolved), the open folder, and the parts of the path below that folder.
"""

# As many as Linux follows in one path before ELOOP.
_MAX_LINKS = 40
OPEN_FOLDER = (
    getattr(os, "O_DIRECTORY", 0) | os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
)


@dataclass(frozen=True)
class OpenFolder:
    """An open folder and a name in it (``.`` for the folder itself), with the canonical virtual path of the place."""

    folder: int
    name: str
    parts: tuple[str, ...]

    def present(self) -> os.stat_result:
        return os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)

    def status(self) -> os.stat_result | None:
        try:
            return self.present()
        except FileNotFoundError:
            return None


class Walk:
    """One walk from a mount's open folder to a place below it; the caller closes what it opened into ``folders``.

    Args:
        create: makes missing folders on the way.
        guard: called for the place, and for the way to it where something else than a folder is.
        way_guard: called before a folder is made, with the place to which it leads.
    """

    def __init__(
        self,
        prefix: tuple[str, ...],
        host: Path,
        folders: list[int],
        parts: tuple[str, ...],
        *,
        create: bool,
        guard: Guard | None,
        way_guard: Guard | None = None,
    ) -> None:
        self.prefix = prefix
        self.host = host
        self.folders = folders
        self.asked = parts
        self.todo = list(reversed(parts[len(prefix) :]))
        self.walked: list[str] = []
        self.links = 0
        self.create = create
        self.guard = guard
        self.way_guard = way_guard

    def run(self) -> OpenFolder:
        while self.todo:
            name = self.todo.pop()
            if name == "..":
                self._climb()
                continue
            status = OpenFolder(self.folders[-1], name, ()).status()
            if status is not None and is_unlisted(self.folders[-1], name):
                raise self._unlisted(name)
            if status is not None and stat.S_ISLNK(status.st_mode):
                self._follow(name)
            elif not self.todo:
                self._ask_guard(name)
                return OpenFolder(self.folders[-1], name, self._canonical(name))
            else:
                self._enter(name, status)
        self._ask_guard()
        return OpenFolder(self.folders[-1], ".", self._canonical())

    def _canonical(self, *names: str) -> tuple[str, ...]:
        return (*self.prefix, *self.walked, *names)

    def _ask_guard(self, *names: str) -> None:
        if self.guard is not None:
            self.guard(self._canonical(*names), self.folders[-1], names)

    def _enter(self, name: str, status: os.stat_result | None) -> None:
        if status is None or not stat.S_ISDIR(status.st_mode):
            # Before any message or new file: behind a link, the path may lead to a place that must not be reached.
            self._ask_guard(name, *reversed(self.todo))
        if status is None:
            # `..` after a missing folder leads nowhere, as for the system.
            if not self.create or ".." in self.todo:
                raise FileNotFoundError(errno.ENOENT, "missing", name)
            if self.way_guard is not None:
                below = (name, *reversed(self.todo))
                self.way_guard(self._canonical(*below), self.folders[-1], below)
            # Another writer may create it first, which is fine: the open below checks the result.
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=self.folders[-1])
        elif not stat.S_ISDIR(status.st_mode):
            raise WorkspaceError(f"{printable(join(self._canonical(name)))} is a file, not a folder.")
        # O_NOFOLLOW: if a program has put a link here since `status` was read, the open fails instead of following it.
        self.folders.append(os.open(name, OPEN_FOLDER, dir_fd=self.folders[-1]))
        self.walked.append(name)

    def _climb(self) -> None:
        if not self.walked:
            raise self._escape()
        self.walked.pop()
        # The folder it came from, not the kernel's `..`: a folder that was moved meanwhile would lead out.
        os.close(self.folders.pop())

    def _follow(self, name: str) -> None:
        self.links += 1
        if self.links > _MAX_LINKS:
            raise WorkspaceError(f"{printable(join(self.asked))} goes round in circles: too many links.")
        target = Path(os.readlink(name, dir_fd=self.folders[-1]))
        if target.is_absolute():
            target = self._inside(target)
            while self.walked:
                self._climb()
        # `todo` is a stack: its end is the next component.
        self.todo.extend(reversed(target.parts))

    def _inside(self, target: Path) -> Path:
        # A link may name the root as it was configured, or by its real path.
        for root in (self.host, Path(real_path(self.host))):
            if target.is_relative_to(root):
                return target.relative_to(root)
        raise self._escape()

    def _unlisted(self, name: str) -> Exception:
        """Return what to raise for a second name of a file: rules know the listed one alone."""
        if not self.create:
            return FileNotFoundError(errno.ENOENT, "missing", name)
        return WorkspaceError(
            f"{printable(join(self.asked))} cannot be made: the file system takes {printable(name)} for a second name"
            " of another file.",
            remedy="Use another name.",
        )

    def _escape(self) -> WorkspaceError:
        return WorkspaceError(
            f"{printable(join(self.asked))} is a link out of the workspace.", remedy="Use another file."
        )
