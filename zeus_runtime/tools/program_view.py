"""The workspace as a program may see it: the folders to mount, and each file whose rights differ from its folder's.

A program opens files without the workspace's checks, so the access policy must be applied before it starts, as mounts.
A file that needs an approval cannot wait for one: it is read-only, or not there if already reading it needs one.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple, TypeAlias

from zeus_runtime.tools.gate import Gate
from zeus_runtime.tools.mounts import Parts
from zeus_runtime.tools.paths import WorkspaceError

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


def program_view(gate: Gate, *, max_files: int) -> list[ProgramMount]:
    """Return the mounts for the running tool's programs, each folder before what is in it.

    Args:
        max_files: the most files and folders that are looked at.

    Raises:
        WorkspaceError: the workspace has more files, or too many whose rights differ from their folder's.
    """
    scan = _Scan(gate, max_files)
    shown: list[str] = []
    found: list[ProgramMount] = []
    for host in sorted(map(gate.mounts.real, (gate.mounts.root, *gate.mounts.folders.values()))):
        # A route into a folder that is shown already is judged there, by all of its names.
        if os.path.isdir(host) and not any(_is_in(host, each) for each in shown):  # noqa: PTH112 - a str is wanted
            shown.append(host)
            found += scan.folder(host)
    return found


class _Scan:
    def __init__(self, gate: Gate, left: int) -> None:
        self._gate = gate
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
        try:
            with os.scandir(host) as scanned:
                entries = sorted(scanned, key=lambda each: each.name)
        except OSError:  # the program can list it as little
            return
        self._left -= len(entries)
        if self._left < 0:
            raise WorkspaceError(
                f"The workspace has more than {self._most:,} files, so their rights cannot be looked up for a command.",
                remedy="Tell the user: a smaller workspace.root, or more `max_files` of the tool.",
            )
        base = host.rstrip("/")
        judged: list[tuple[str, Parts, bool, ProgramRight]] = []
        for entry in entries:
            if entry.is_symlink():  # its target is judged where it lies
                continue
            at, inner = f"{base}/{entry.name}", (*parts, entry.name)
            try:
                right = self._right(inner, at, entry.stat(follow_symlinks=False))
            except FileNotFoundError:
                continue
            judged.append((at, inner, entry.is_dir(follow_symlinks=False), right))
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


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")
