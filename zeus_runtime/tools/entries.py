"""What is in a folder."""

from __future__ import annotations

import os
import stat
from typing import Literal, TypeAlias

from zeus_runtime.escaping import printable
from zeus_runtime.frozen import dataclass
from zeus_runtime.tools import atomic
from zeus_runtime.tools.paths import WorkspaceError, join
from zeus_runtime.tools.safe_open import OPEN_FOLDER, OpenFolder

EntryKind: TypeAlias = Literal["file", "directory", "link", "other"]


@dataclass(frozen=True)
class FileEntry:
    """One thing in a folder. ``size`` in bytes, of files and only where it was asked for."""

    path: str
    kind: EntryKind
    size: int | None = None

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


def scan(place: OpenFolder, parts: tuple[str, ...], *, sizes: bool) -> dict[str, FileEntry]:
    if not stat.S_ISDIR(place.present().st_mode):
        raise WorkspaceError(f"{printable(join(parts))} is not a folder.", remedy="Use read_file for files.")
    folder = os.open(place.name, OPEN_FOLDER, dir_fd=place.folder)
    try:
        with os.scandir(folder) as entries:
            return {
                entry.name: _entry(entry, parts, sizes=sizes)
                for entry in entries
                if not entry.name.endswith(atomic.TEMPORARY_SUFFIX)
            }
    finally:
        os.close(folder)


def kind_of(status: os.stat_result) -> EntryKind:
    mode = status.st_mode
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    return "link" if stat.S_ISLNK(mode) else "other"


def _entry(entry: os.DirEntry[str], parts: tuple[str, ...], *, sizes: bool) -> FileEntry:
    kind: EntryKind
    size: int | None = None
    if entry.is_symlink():
        kind = "link"
    elif entry.is_dir(follow_symlinks=False):
        kind = "directory"
    elif entry.is_file(follow_symlinks=False):
        kind = "file"
        size = _size(entry) if sizes else None
    else:
        kind = "other"
    return FileEntry(join((*parts, entry.name)), kind, size)


def _size(entry: os.DirEntry[str]) -> int | None:
    try:
        return entry.stat(follow_symlinks=False).st_size
    except FileNotFoundError:
        # Removed while the folder was being listed.
        return None
