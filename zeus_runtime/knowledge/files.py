"""The files below the sources of a base, and their names in citations."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zeus_runtime.disk_paths import real_path
from zeus_runtime.knowledge.convert import MAX_BYTES
from zeus_runtime.tools.access import ANY_TOOL
from zeus_runtime.tools.calling_tool import calling
from zeus_runtime.tools.paths import NoSuchFileError, WorkspaceError

if TYPE_CHECKING:
    from zeus_runtime.tools.workspace import WorkspaceFiles

_SKIPPED: Final = frozenset({"node_modules", "__pycache__", "venv", "dist", "build", "target"})

KNOWN_BINARY: Final = frozenset(
    ".7z .a .avi .bin .bmp .bz2 .class .db .dll .doc .dylib .eot .exe .flac .gif .gz .ico .jar .jpeg .jpg .lock .mkv"
    " .mov .mp3 .mp4 .o .ogg .otf .parquet .pickle .pkl .png .ppt .pptx .pyc .rar .so .sqlite .tar .tgz .tif .tiff"
    " .ttf .wav .webm .webp .whl .woff .woff2 .xls .xlsx .xz .zip".split()
)
"""Suffixes that are not looked into below a folder."""


@dataclass(frozen=True)
class FoundFile:
    """A file to be read.

    Args:
        path: absolute.
        name: its last part.
        label: what citations call it: the path below the folder that was added, with the folder's name.
        source: the path that was added.
        real: ``path`` with the links of the source resolved, as it was found.
    """

    path: str
    name: str
    label: str
    source: str
    size_bytes: int
    mtime_ns: int
    real: str


def files_of(
    sources: Sequence[str], unread: Callable[[str, str], None] = lambda _folder, _why: None
) -> Iterator[FoundFile]:
    """Every file of the sources, sorted, each once; hidden files, caches and links are left out.

    Args:
        sources: absolute paths.
        unread: called with each folder that cannot be read, and the reason.
    """
    seen: set[str] = set()
    for source in sources:
        for found in _of(source, unread):
            if found.path not in seen:
                seen.add(found.path)
                yield found


def read_allowed(found: FoundFile, workspace: WorkspaceFiles) -> bytes:
    """The content of a file as it is now, if the agent's tools may read it. Its folder was added by a person.

    Raises:
        WorkspaceError: no tool may read it, a link has taken its place, or it is too large.
        OSError: it cannot be opened.
    """
    # A person chose the source, which is the approval.
    with calling(ANY_TOOL, approved=True):
        try:
            return workspace.read_host(
                Path(found.real), max_bytes=MAX_BYTES, named=Path(found.path), follow=False
            )
        except NoSuchFileError as error:
            if not os.path.lexists(found.real):
                raise
            raise WorkspaceError(
                f"{found.path} lies behind a route of the workspace, or its folder lists it by another name, so no tool"
                " reaches it by this path"
            ) from error


def read_freely(found: FoundFile) -> bytes:
    """The content of a file that no rules restrict."""
    # Without a buffer between: half of what ``Path.read_bytes`` takes for a small one.
    with open(found.path, "rb", buffering=0) as file:  # noqa: PTH123
        return file.read()


def is_utf8(path: str) -> bool:
    """Whether a path is valid UTF-8; Linux accepts any bytes in a name."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


_HANDFUL_BYTES: Final = 256_000
"""Of files that are read and cut in one visit to another thread, which costs as much as cutting a chunk or two."""


def handfuls(files: Sequence[FoundFile], *, at_most: int) -> Iterator[Sequence[FoundFile]]:
    """The files in order, small ones together."""
    start, size = 0, 0
    for place, found in enumerate(files):
        if place > start and (size + found.size_bytes > _HANDFUL_BYTES or place - start >= at_most):
            yield files[start:place]
            start, size = place, 0
        size += found.size_bytes
    if start < len(files):
        yield files[start:]


def _of(source: str, unread: Callable[[str, str], None]) -> Iterator[FoundFile]:
    root = Path(source)
    if root.is_dir():
        yield from _below(source, source, root.name, real_path(source), unread)
        return
    with suppress(OSError):
        state = root.stat()
        if stat.S_ISREG(state.st_mode):
            yield FoundFile(
                source, root.name, root.name, source, state.st_size, state.st_mtime_ns, real_path(source)
            )


def _below(
    folder: str, source: str, label: str, real: str, unread: Callable[[str, str], None]
) -> Iterator[FoundFile]:
    try:
        with os.scandir(folder) as scanned:
            entries = sorted(scanned, key=lambda each: each.name)
    except OSError as error:
        unread(folder, error.strerror or str(error))
        return
    for entry in entries:
        name = entry.name
        # A link may lead out of the source, or into a circle.
        if name.startswith(".") or name in _SKIPPED or entry.is_symlink():
            continue
        at = f"{real.rstrip('/')}/{name}"
        if entry.is_dir(follow_symlinks=False):
            yield from _below(entry.path, source, f"{label}/{name}", at, unread)
            continue
        _, dot, suffix = name.rpartition(".")
        if dot + suffix.lower() in KNOWN_BINARY:
            continue
        try:
            state = entry.stat(follow_symlinks=False)
        except FileNotFoundError:  # deleted since it was listed
            continue
        except OSError as error:  # such as a folder that may be listed but not entered
            unread(folder, error.strerror or str(error))
            continue
        if stat.S_ISREG(state.st_mode):
            size, changed = state.st_size, state.st_mtime_ns
            yield FoundFile(entry.path, name, f"{label}/{name}", source, size, changed, at)
