"""The workspace as a program may see it: the folders to mount, and each file whose rights differ from its folder's.

A program opens files without the workspace's checks, so the access policy must be applied before it starts, as mounts.
A file that needs an approval cannot wait for one: it is read-only, or not there if already reading it needs one.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from zeus_runtime.tools.gate import Gate
from zeus_runtime.tools.mounts import Parts
from zeus_runtime.tools.own_folders import ARCHIVES, STATE
from zeus_runtime.tools.paths import WorkspaceError, folded

ProgramRight: TypeAlias = Literal["none", "read", "write"]


class ProgramMount(NamedTuple):
    """A folder or file that programs may use otherwise than the folder around it.

    Args:
        host: its real path.
        right: the program's right; of a folder it covers all that is in it, apart from later mounts.
        is_folder: whether it is a folder.
    """

    host: str
    right: ProgramRight
    is_folder: bool


_MOST_MOUNTS: Final = 4_000
"""Each is a mount of the kernel; bubblewrap makes about 10,000 a second."""


_SETTLED_NANOSECONDS: Final = 2_000_000_000
"""A folder that was changed later than so before a look may change again within the same tick of its file system."""


class JudgedFolders:
    """The rights of the files in folders that have not changed since an earlier look.

    They also depend on the running tool, on where links lead, and on the folder's own right: with another one, its
    files are judged again. Folders of Zeus are always judged again, since a session may read only its own files there.
    """

    def __init__(self) -> None:
        self._folders: dict[str, tuple[object, Sequence[_Judged]]] = {}
        self._seen_with: object = None

    def begin(self, seen_with: object) -> None:
        """Forget everything, if tool or links differ from those of the last look."""
        if seen_with != self._seen_with:
            self._folders, self._seen_with = {}, seen_with

    def find(self, host: str, state: object) -> Sequence[_Judged] | None:
        """Return the files of a folder, if they were judged in the same state."""
        found = self._folders.get(host)
        return found[1] if found is not None and found[0] == state else None

    def keep(self, host: str, state: object, judged: Sequence[_Judged]) -> None:
        """Keep the files of a folder for the next look."""
        self._folders[host] = state, judged


def program_view(gate: Gate, known: JudgedFolders, *, max_files: int) -> list[ProgramMount]:
    """Return the mounts for the running tool's programs, each folder before what is in it.

    Args:
        known: what earlier looks found; this one adds to it.
        max_files: the most files and folders that are looked at.

    Raises:
        WorkspaceError: the workspace has more files, or too many whose rights differ from their folder's.
    """
    known.begin(gate.seen_with())
    scan = _Scan(gate, known, max_files)
    shown: list[str] = []
    found: list[ProgramMount] = []
    for host in sorted(map(gate.mounts.real, (gate.mounts.root, *gate.mounts.folders.values()))):
        # A route into a folder that is shown already is judged there, by all of its names.
        if os.path.isdir(host) and not any(_is_in(host, each) for each in shown):  # noqa: PTH112 - a str is wanted
            shown.append(host)
            found += scan.folder(host)
    return found


class _Judged(NamedTuple):
    host: str
    parts: Parts
    is_folder: bool
    right: ProgramRight


class _Scan:
    def __init__(self, gate: Gate, known: JudgedFolders, left: int) -> None:
        self._gate = gate
        self._known = known
        self._left = self._most = left
        self._mounts = 0

    def folder(self, host: str) -> Iterator[ProgramMount]:
        """Yield the mount of a top folder, and those below it."""
        parts = self._gate.mounts.names_of(host)[0].parts
        right = self._right(parts, host, os.stat(host)) if parts else self._top(host)  # noqa: PTH116
        yield self._mount(host, right, is_folder=True)
        if right != "none":
            yield from self._below(host, parts, right)

    def _top(self, host: str) -> ProgramRight:
        """The root has no name that a rule could fit, so a file that might be made in it is judged."""
        new = self._gate.ruling(("new",), f"{host.rstrip('/')}/new", "write")
        return "write" if new is None else "read"

    def _below(self, host: str, parts: Parts, outer: ProgramRight) -> Iterator[ProgramMount]:
        judged = self._judged(host, parts, outer)
        self._left -= len(judged)
        if self._left < 0:
            raise WorkspaceError(
                f"The workspace has more than {self._most:,} files, so their rights cannot be looked up for a command.",
                remedy="Tell the user: a smaller workspace.root, or more `max_files` of the tool.",
            )
        hidden = sum(right == "none" for *_, right in judged)
        if outer == "read" and hidden > len(judged) - hidden:
            # Nothing can be made in it, so it can be shown with the other files only: fewer mounts, and no names.
            yield self._mount(host, "none", is_folder=True)
            outer = "none"
        for at, inner, is_folder, right in judged:
            if right != outer:
                yield self._mount(at, right, is_folder=is_folder)
            if is_folder and right != "none":
                yield from self._below(at, inner, right)

    def _judged(self, host: str, parts: Parts, outer: ProgramRight) -> Sequence[_Judged]:
        try:
            status = os.stat(host)  # noqa: PTH116 - a str is at hand
        except OSError:
            return ()
        changed = max(status.st_mtime_ns, status.st_ctime_ns)
        state = (status.st_dev, status.st_ino, changed, parts, outer)
        found = self._known.find(host, state)
        if found is None:
            found = list(self._looked_at(host, parts))
            if time.time_ns() - changed > _SETTLED_NANOSECONDS and not _is_kept(host, parts):
                self._known.keep(host, state, found)
        return found

    def _looked_at(self, host: str, parts: Parts) -> Iterator[_Judged]:
        try:
            with os.scandir(host) as scanned:
                entries = sorted(scanned, key=lambda each: each.name)
        except OSError:  # the program can list it as little
            return
        for entry in entries:
            if entry.is_symlink():  # its target is judged where it lies
                continue
            at, inner = f"{host.rstrip('/')}/{entry.name}", (*parts, entry.name)
            try:
                right = self._right(inner, at, entry.stat(follow_symlinks=False))
            except FileNotFoundError:
                continue
            yield _Judged(at, inner, entry.is_dir(follow_symlinks=False), right)

    def _mount(self, host: str, right: ProgramRight, *, is_folder: bool) -> ProgramMount:
        self._mounts += 1
        if self._mounts > _MOST_MOUNTS:
            raise WorkspaceError(
                f"More than {_MOST_MOUNTS:,} files have other rights than their folders, so no command can be run.",
                remedy="Tell the user: rules of workspace.access for folders instead of files.",
            )
        return ProgramMount(host, right, is_folder)

    def _right(self, parts: Parts, host: str, status: os.stat_result) -> ProgramRight:
        if self._gate.ruling(parts, host, "read") is not None:
            return "none"
        if stat.S_ISREG(status.st_mode):
            if status.st_nlink > 1 and self._gate.opened_refusal(parts, host, status) is not None:
                return "none"
        elif not stat.S_ISDIR(status.st_mode):  # a socket leads to another program, which nothing contains
            return "none"
        return "read" if self._gate.ruling(parts, host, "write") is not None else "write"


def _is_kept(host: str, parts: Parts) -> bool:
    """Whether the rights in a folder depend on the session: it is Zeus's own, or of its archive."""
    return f"/{STATE}/" in folded(f"{host}/") or folded("".join(parts[:1])) in ARCHIVES


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")
