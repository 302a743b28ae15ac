"""The project files that the words of a command name, and the content that a digest holds for each.

A word is read in every way in which programs read words; no program is treated by name.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import file_digest, sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from zeus_runtime.trust.parts import Project

_MAX_PATH: Final = 4_096
MOST_BASES: Final = 32
"""Folders that the words of one command name, below which its other words are looked for."""
MOST_ENTRIES: Final = 1_000
"""Files and folders that the folders of one command may hold to be covered."""
MOST_BYTES: Final = 8 << 20
"""Bytes that the files in the folders of one command may hold to be covered."""
_BETWEEN: Final = re.compile(r"[\s;&|<>()`'\"$={},:@]+")
"""What stands between the file names in an option, an address or a shell's command."""
_MODULE: Final = re.compile(r"\w+(?:\.\w+)+")
_EXPANDED: Final = re.compile(r"[$`*?\[{]|(?:^|[\s=:])~")
"""What a shell replaces by something else."""
_LONGEST_OPTION: Final = 255
_CACHES: Final = "__pycache__"
_TIMED: Final = bytes(4)
"""The flags of a compiled file that Python compares with its source's time and size (PEP 552)."""


@dataclass(frozen=True)
class Named:
    """A file or folder that a word of a command names.

    Args:
        word: index of the word.
        name: the file as the word names it.
        path: its location.
        content: its digest, or a description of it if the digest does not hold its content.
        is_covered: whether the digest holds its content.
    """

    word: int
    name: str
    path: Path
    content: str
    is_covered: bool = True


@dataclass(frozen=True)
class Covered:
    """The project files that a digest covers.

    Args:
        named: the files that the words name, without ``data``.
        unsplit: the words that a shell would expand, so the files they name are unknown.
        has_more: the words name more folders than are searched for names.
        refused: the entries of ``data`` that name a file that the command starts.
    """

    named: tuple[Named, ...]
    unsplit: tuple[int, ...] = ()
    has_more: bool = False
    refused: tuple[str, ...] = ()

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files and folders whose content is in the digest."""
        return tuple(dict.fromkeys(each.path for each in self.named if each.is_covered))


def covered(
    words: Sequence[str],
    project: Project,
    *,
    cwd: str = ".",
    env: Sequence[str] = (),
    data: Sequence[str] = (),
) -> Covered:
    """The files that a command names.

    Args:
        words: the program and its arguments.
        cwd: its working directory; relative to the project's.
        env: the values of its environment.
        data: files and folders whose content may change.
    """
    every = (*words, *env)
    names = [list(_names(word)) for word in every]
    search = _NameSearch(project, project.directory / cwd)
    search.grow(name for each in names[1:] for name in each)
    found = list(search.program(words[0], names[0]))
    for index, each in enumerate(names[1:], 1):
        found += search.named(index, each)
    started = _started(found, words)
    exempt = {entry: set(search.places(entry)) for entry in data}
    refused = tuple(
        entry for entry, places in exempt.items() if any(_is_in(each.path, places) for each in started)
    )
    free = set().union(*(places for entry, places in exempt.items() if entry not in refused))
    read = (search.read(each, free) for each in found if not _is_in(each.path, free))
    unsplit = tuple(index for index, word in enumerate(every) if index and _is_expanded(word))
    return Covered(tuple(read), unsplit, search.has_more, refused)


def files_below(folder: Path, most: int = MOST_ENTRIES) -> Iterator[Path]:
    """The files in a folder, sorted, links followed; each folder once. Files that Python compiles itself are left out.

    Raises:
        TooLargeError: there are more than ``most`` files and folders.
        OSError: a folder cannot be read.
    """
    seen: set[str] = set()
    for place, folders, names in os.walk(folder, followlinks=True, onerror=_raise):
        real = os.path.realpath(place)
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        folders.sort()
        files = [file for file in (Path(place, name) for name in sorted(names)) if not _is_timed(file)]
        # Python creates cache folders while it runs, so they must not decide whether a folder is too large.
        most -= len(files) + (Path(place).name != _CACHES)
        if most < 0:
            raise TooLargeError
        yield from files


class TooLargeError(Exception):
    """A folder holds more entries than a digest reads."""


class _NameSearch:
    """The folders where names are looked up: the project's, and those that words name.

    Args:
        project: its ``path`` is the command's.
        cwd: the command's working directory.

    Attributes:
        has_more: the words name more folders than are searched.
    """

    def __init__(self, project: Project, cwd: Path) -> None:
        self._tops = project.places
        self._project = replace(project, folders=(*project.folders, cwd))
        self._cwd = cwd
        folders = (cwd, project.directory, *project.folders)
        self._bases = list(dict.fromkeys(os.path.normpath(each) for each in folders))
        self._most_bases = len(self._bases) + MOST_BASES
        self.has_more = False
        self._modes: dict[str, int] = {}
        self._siblings: dict[str, Mapping[str, list[Path]]] = {}
        self._entries, self._bytes = MOST_ENTRIES, MOST_BYTES

    def grow(self, names: Iterable[str]) -> None:
        """Also search the folders that are named: ``--directory tools run server.py``, ``cd a && cd b && ./run``.

        Folders above the project are among them: ``--directory .. run project/server.py``.
        """
        every = list(dict.fromkeys(names))
        for base in self._bases:  # the list grows during the loop
            for name in every:
                place = _place(base, name)
                if stat.S_ISDIR(self._mode(place)) and place not in self._bases and self._leads_to_it(place):
                    if len(self._bases) >= self._most_bases:
                        self.has_more = True
                        return
                    self._bases.append(place)

    def program(self, word: str, names: Iterable[str]) -> Iterator[Named]:
        """The program that the command starts: the first match on ``PATH``, or a path."""
        if os.sep not in word:
            folders = self._project.path.split(os.pathsep) if word else []
            places = [_place(str(self._cwd / folder), word) for folder in folders]
            found = [Path(each) for each in places if stat.S_ISREG(self._mode(each))]
            yield from [Named(0, word, each, "") for each in found if self._is_ours(each)][:1]
            return
        for name in names:
            place = _place(str(self._cwd), name)
            if stat.S_ISREG(self._mode(place)) and self._is_ours(Path(place)):
                yield Named(0, name, Path(place), "")

    def named(self, word: int, names: Iterable[str]) -> Iterator[Named]:
        """The files and folders that an argument or a value names, also files named without their suffix."""
        found: dict[str, str] = {}
        for name in names:
            # `.` and `..` are the working directory's own.
            for base in self._bases if name.strip("./") else self._bases[:1]:
                place = _place(base, name)
                mode = self._mode(place)
                if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
                    found.setdefault(place, name)
                if not stat.S_ISREG(mode):
                    for each in self._with_suffix(place):
                        found.setdefault(each, name)
        for place, name in found.items():
            path = Path(place)
            if self._is_ours(path):
                yield Named(word, name, path, "")

    def places(self, entry: str) -> Iterator[Path]:
        """The paths that an entry of ``data`` may mean."""
        for base in self._bases if "\0" not in entry else ():
            place = _place(base, entry)
            yield from (Path(place), Path(os.path.realpath(place)))

    def read(self, named: Named, free: set[Path]) -> Named:
        """The same name with the content that the digest holds for it.

        Args:
            free: files that may change.
        """
        try:
            resolved = named.path.resolve()
            if not self._project.has(resolved):
                return replace(named, content=f"a link to {resolved}")
            if not resolved.is_dir():
                return replace(named, content=content_of(resolved))
            if any(top.is_relative_to(resolved) for top in self._tops):
                return replace(named, content=_WORKED_IN, is_covered=False)
            return replace(named, content=self._folder(named.path, free))
        except TooLargeError:
            return replace(named, content=_TOO_LARGE, is_covered=False)
        except OSError as error:
            return replace(named, content=f"cannot be read: {error.strerror}")

    def _folder(self, folder: Path, free: set[Path]) -> str:
        content, count, left = sha256(), 0, self._bytes
        for file in files_below(folder, self._entries):
            if _is_in(file, free):
                continue
            count += 1
            mode, size = _status(file)
            left -= size
            if left < 0:
                raise TooLargeError
            what = content_of(file).removeprefix("sha256 ") if stat.S_ISREG(mode) else "not a file"
            name = os.fsencode(file.relative_to(folder).as_posix())
            content.update(b"%d %s %s\0" % (len(name), name, what.encode()))
        self._entries, self._bytes = self._entries - count, left
        return f"a folder with {count:,} {'file' if count == 1 else 'files'}, sha256 {content.hexdigest()}"

    def _with_suffix(self, place: str) -> Iterator[str]:
        """The files that a program finds for a name without a suffix, and those that Python compiled from them."""
        folder, name = os.path.split(place)
        for each in (folder, f"{folder}{os.sep}{_CACHES}"):
            for file in self._siblings_in(each).get(name.casefold(), ()):
                if stat.S_ISREG(self._mode(str(file))) and not _is_timed(file):
                    yield str(file)

    def _siblings_in(self, folder: str) -> Mapping[str, list[Path]]:
        """The entries of a project folder, by each part of their name that ends before a dot."""
        if folder not in self._siblings:
            found: dict[str, list[Path]] = {}
            here = Path(folder)
            if stat.S_ISDIR(self._mode(folder)) and self._is_ours(here):
                for file in sorted(here.iterdir()):
                    name = file.name.casefold()
                    for dot in (index for index, letter in enumerate(name) if letter == "."):
                        found.setdefault(name[:dot], []).append(file)
            self._siblings[folder] = found
        return self._siblings[folder]

    def _mode(self, place: str) -> int:
        """The mode of the file at a path, links followed; 0 if there is none."""
        if place not in self._modes:
            try:
                self._modes[place] = Path(place).stat().st_mode
            except (OSError, ValueError):
                self._modes[place] = 0
        return self._modes[place]

    def _is_ours(self, path: Path) -> bool:
        return self._project.has(Path(os.path.normpath(path))) or self._project.has(path.resolve())

    def _leads_to_it(self, place: str) -> bool:
        path = Path(place)
        return self._is_ours(path) or any(each.is_relative_to(path) for each in self._tops)


_WORKED_IN: Final = (
    "the files in this folder are not covered, because it is or holds the working directory, the workspace or the"
    " config's folder"
)
_TOO_LARGE: Final = (
    f"the files in this folder are not covered, because there are more than {MOST_ENTRIES:,} files and folders, or"
    f" {MOST_BYTES >> 20} MiB"
)


def _place(base: str, name: str) -> str:
    """The path that a name leads to. ``..`` is kept out of it, because a link before ``..`` would lead elsewhere."""
    place = Path(base, name)
    if ".." not in place.parts:
        return os.path.normpath(place)
    return os.path.realpath(place) if place.name == ".." else str(place.parent.resolve() / place.name)


def _names(word: str) -> Iterator[str]:
    """The parts of a word that may name a file: ``server.py``, ``--load=server.py``, ``-rserver.js``,
    ``cd a && ./run.sh``, ``-mtools.server``.
    """
    pieces = dict.fromkeys([word, *_BETWEEN.split(word)])
    for piece in _shell_words(word):
        pieces.update(dict.fromkeys([piece, *_BETWEEN.split(piece)]))
    for piece in list(pieces):
        if re.match("-[^-]", piece):
            ends = len(piece) if len(piece) <= _LONGEST_OPTION else 3
            pieces.update(dict.fromkeys(piece[start:] for start in range(2, ends)))
    for piece in list(pieces):
        if _MODULE.fullmatch(piece):
            *packages, _ = parts = piece.split(".")
            pieces["/".join(parts)] = None
            for depth in range(1, len(packages) + 1):
                package = "/".join(packages[:depth])
                pieces[f"{package}/__init__"] = None
                # Python prefers such a file to a folder that has no `__init__`.
                pieces.update(
                    dict.fromkeys(f"{package}{suffix}" for suffix in (".py", ".pyc", ".so", ".abi3.so"))
                )
    yield from (piece for piece in pieces if 0 < len(piece) <= _MAX_PATH and "\0" not in piece)


def _shell_words(word: str) -> list[str]:
    """The words that a shell makes of a word; empty if its quotes are open."""
    if not re.search(r"['\"\\]", word):
        return word.split()
    lexer = shlex.shlex(word, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        return list(lexer)
    except ValueError:
        return []


def _is_expanded(word: str) -> bool:
    return bool(_EXPANDED.search(word) or (word.strip() and not _shell_words(word)))


def _started(found: Sequence[Named], words: Sequence[str]) -> list[Named]:
    """The files that a command starts, as far as its words show: the program, and the first file among the arguments.

    The value of an option that is written with ``=`` is not examined.
    """
    program = [each for each in found if each.word == 0]
    arguments = [
        each
        for each in found
        if 0 < each.word < len(words) and not re.match("-[^=]*=", words[each.word]) and not each.path.is_dir()
    ]
    return program + [
        each for each in arguments if (each.word, each.name) == (arguments[0].word, arguments[0].name)
    ]


def _is_in(path: Path, places: set[Path]) -> bool:
    return bool(places) and not places.isdisjoint((path, *path.parents))


def _is_timed(file: Path) -> bool:
    """Whether Python compiled this file and would compile it again if the source's time changed."""
    if file.parent.name != _CACHES or file.suffix != ".pyc":
        return False
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            return False
        with file.open("rb") as stream:
            return stream.read(8)[4:] == _TIMED
    except OSError:
        return False


def _status(file: Path) -> tuple[int, int]:
    """Mode and size; 0 for a link that leads nowhere."""
    try:
        status = file.stat()
    except FileNotFoundError:
        return 0, 0
    return status.st_mode, status.st_size


def content_of(file: Path) -> str:
    """The content of a file as a digest holds it."""
    with file.open("rb") as stream:
        return f"sha256 {file_digest(stream, 'sha256').hexdigest()}"


def _raise(error: OSError) -> None:
    raise error
