"""The content of files and folders as a digest holds it, without what may change."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from hashlib import file_digest
from importlib.util import source_from_cache
from itertools import chain
from pathlib import Path
from typing import Final, TypeAlias

from zeus_runtime.disk_paths import real_path
from zeus_runtime.frozen import dataclass
from zeus_runtime.proc_files import is_proc, opened

MOST_ENTRIES: Final = 1_000
"""Files and folders that the folders of one command may hold to be covered."""
CACHES: Final = "__pycache__"
_TIMED: Final = bytes(4)
"""The flags of a compiled file that Python compares with its source's time and size (PEP 552)."""
Held: TypeAlias = tuple[Path, str]
"""A file, and the SHA-256 of its content."""


@dataclass(frozen=True)
class Named:
    """A file or folder that a word of a command names.

    Args:
        word: index of the word.
        name: the file as the word names it.
        path: its location.
        content: its digest, or a description of it if the digest does not hold its content.
        is_covered: whether the digest holds its content.
        held: the files whose content the digest holds, each with its SHA-256.
        unread: the files and folders in it that cannot be read, each with the reason. The digest holds their names.
    """

    word: int
    name: str
    path: Path
    content: str
    is_covered: bool = True
    held: tuple[Held, ...] = ()
    unread: tuple[tuple[Path, str], ...] = ()


class Data:
    """The files and folders that a digest leaves out: as they are named, and never through a link.

    Args:
        places: their paths. A link among them counts as itself, not as what it leads to.
    """

    def __init__(self, places: Iterable[Path]) -> None:
        self.places = tuple(places)
        self._folders: dict[Path, Path] = {}
        self._own = set(map(self.own, self.places))
        self._named = {*self.places, *self._own}

    @classmethod
    def of(cls, parts: Iterable[Data]) -> Data:
        """All that any of the parts leaves out."""
        return cls(chain.from_iterable(each.places for each in parts))

    def has(self, path: Path) -> bool:
        """Whether a file or a link is left out."""
        return (
            bool(self.places)
            and not self._named.isdisjoint((path, *path.parents))
            and not self._own.isdisjoint((own := self.own(path), *own.parents))
        )

    def own(self, path: Path) -> Path:
        """Where a file or a link lies: the path with the links of its folder resolved."""
        if path.parent not in self._folders:
            self._folders[path.parent] = Path(real_path(path.parent))
        return self._folders[path.parent] / path.name

    def files(self) -> Iterator[Path]:
        """The files that are left out, without what links lead to."""
        for place in sorted(self._own):
            yield place
            for folder, _, names in () if place.is_symlink() else os.walk(place):
                yield from (Path(folder, name) for name in names)


def _raise(error: OSError) -> None:
    raise error


def files_below(
    folder: Path,
    most: int = MOST_ENTRIES,
    *,
    compiled_apart: bool = False,
    unread: Callable[[OSError], object] = _raise,
) -> Iterator[Path]:
    """The files in a folder, sorted, links followed; each folder once.

    Args:
        compiled_apart: leave out the files that Python compiles itself.
        unread: receives the error of each folder that cannot be read, with its path as ``filename``.

    Raises:
        TooLargeError: there are more than ``most`` files and folders.
        OSError: a folder cannot be read, and there is no ``unread``.
    """
    for files, _ in folders_below(folder, most, Data(()), compiled_apart=compiled_apart, unread=unread):
        yield from files


def folders_below(
    folder: Path, most: int, free: Data, *, compiled_apart: bool, unread: Callable[[OSError], object]
) -> Iterator[tuple[list[Path], list[Path]]]:
    """As ``files_below``: the files of each folder, and its links to folders.

    Args:
        free: is left out, and counts for no limit.
    """
    seen: set[str] = set()
    for place, folders, names in os.walk(folder, followlinks=True, onerror=unread):
        real = real_path(place)
        try:
            # A proc file system lists what runs at the moment, and leads on to all of the machine's folders.
            if is_proc(Path(place).stat().st_dev):
                raise OSError(errno.EINVAL, "it is no folder of a disk", place)
        except OSError as error:  # also a folder that is gone since it was listed
            unread(error)
            folders.clear()
            names.clear()
        # A link may lead back to a folder above it.
        if real in seen:
            folders.clear()
            names.clear()
        seen.add(real)
        for each in (folders, names):
            each[:] = [name for name in each if not free.has(Path(place, name))]
        folders.sort()
        files = [Path(place, name) for name in sorted(names)]
        if compiled_apart:
            files = [file for file in files if not is_timed(file)]
        # Python creates cache folders while it runs, so they must not decide whether a folder is too large.
        most -= len(files) + (Path(place).name != CACHES)
        if most < 0:
            raise TooLargeError
        links = [Path(place, name) for name in folders]
        yield files, [link for link in links if os.path.islink(link)]  # noqa: PTH114 - raises nothing


class TooLargeError(Exception):
    """A folder holds more entries than a digest reads."""


def is_timed(file: Path) -> bool:
    """Whether Python compiled this file and would compile it again if the source's time changed.

    A file without a source beside the folder, or without the interpreter's tag in its name, is run as it is.
    """
    if file.parent.name != CACHES or file.suffix != ".pyc":
        return False
    try:
        if not stat.S_ISREG(Path(source_from_cache(str(file))).stat().st_mode):
            return False
    except (OSError, ValueError):
        return False
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            return False
        with file.open("rb") as stream:
            # Four bytes of magic number, then the flags (PEP 552).
            return stream.read(8)[4:] == _TIMED
    except OSError:
        return False


def mode_and_size(file: Path) -> tuple[int, int]:
    """Mode and size; 0 for a link that leads nowhere."""
    try:
        status = file.stat()
    except FileNotFoundError:
        return 0, 0
    return status.st_mode, status.st_size


def content_of(file: Path) -> str:
    """The content of a file as a digest holds it.

    Raises:
        OSError: as ``opened``; a repository may have brought a link to such a file.
    """
    with opened(file) as stream:
        return f"sha256 {file_digest(stream, 'sha256').hexdigest()}"


def hex_of(content: str) -> str:
    """The digits alone of what ``content_of`` gives."""
    return content.removeprefix("sha256 ")
