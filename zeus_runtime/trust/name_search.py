"""Look up the files that the words of a command name, in the folders of a project and in those that words name."""

from __future__ import annotations

import os
import re
import stat
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from glob import escape
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from zeus_runtime.disk_paths import plain_path, real_path
from zeus_runtime.trust.command_words import (
    MODULE_FLAG,
    SIGN,
    beginning,
    begun_at,
    is_path,
    json_unescaped,
    key_of,
    parts_of,
    shell_words,
    stems,
)
from zeus_runtime.trust.file_content import CACHES, Data, Named, is_timed
from zeus_runtime.trust.scripts import interpreter, linked_by_script

if TYPE_CHECKING:
    from zeus_runtime.trust.parts import Project

MOST_BASES: Final = 32
"""Folders that the words of one command name, below which its other words are looked for."""
MOST_LOOKUPS: Final = 100_000
"""Names that the words of one command may have, each counted for each folder below which it is looked for."""
_LONGEST_JOINED: Final = 255
"""Characters of a name with signs that is a part of a longer text."""
MODULE_SUFFIXES: Final = (".py", ".pyc", ".so")
_MODULE_GLOBS: Final = (".py", ".pyc", ".so", ".*.so")
# `server.py`, but not `v1.2`.
_FILE_NAME: Final = re.compile(r"\w\.[A-Za-z]\w{0,9}\Z")
_PACKAGES: Final = "node_modules"
_PROGRAMS: Final = ".bin"
_MOST_READINGS: Final = 16
"""Texts that decoding makes of one word."""
_MOST_PARTS: Final = 64
"""Folders in a path that names nothing, up to which its parts are looked up; only the program knows a longer one."""


def with_above(folders: Iterable[str | Path]) -> Sequence[Path]:
    """Folders and those above them, each once."""
    places = [Path(plain_path(each)) for each in folders]
    return [*dict.fromkeys(chain.from_iterable((each, *each.parents) for each in places))]


class NameSearch:
    """The folders where names are looked up: the project's, and those that words name.

    Args:
        project: its ``path`` is the command's.
        cwd: the command's working directory.
        compiled_apart: the command uses no compiled files of Python beside sources.
        no_packages: words that name no package that npm has linked.

    Attributes:
        has_more: the words name more folders than are searched, or more names than are looked up.
    """

    def __init__(
        self, project: Project, cwd: Path, *, compiled_apart: bool, no_packages: Set[str] = frozenset()
    ) -> None:
        self._compiled_apart = compiled_apart
        self._no_packages = no_packages
        self.tops = project.places
        self.project = replace(project, folders=(*project.folders, cwd))
        self._cwd = cwd
        folders = (cwd, project.directory, *project.folders)
        self._bases = list(dict.fromkeys(map(plain_path, folders)))
        self._most_bases = len(self._bases) + MOST_BASES
        self.has_more = False
        self._path = [str(cwd / folder) for folder in project.path.split(os.pathsep)]
        self._modes: dict[str, int] = {}
        self._interpreters: dict[Path, Sequence[str]] = {}
        self._entries_in: dict[str, Mapping[str, list[Path]]] = {}
        self._installed: dict[str, Sequence[str]] = {}
        self._beginnings: set[str] = set()
        self._lookups = MOST_LOOKUPS

    def grow(self, words: Sequence[str], *, everywhere: bool = False) -> Sequence[str]:
        """Also search the folders that are named: ``--directory tools run server.py``, ``cd a && cd b && ./run``.

        Folders above the project are among them: ``--directory .. run project/server.py``.

        Args:
            everywhere: folders outside of the project too.

        Returns:
            the new folders.
        """
        first = len(self._bases)
        every: list[str] = []
        for base in self._bases:  # the list grows during the loop
            files = {file.name for each in self._listing(base).values() for file in each}
            begun = {beginning(stem) for file in files for stem in stems(file)} - self._beginnings
            # `_names` reads the beginnings of all entries seen so far, so it is asked again only if there are new ones.
            if begun or not every:
                self._beginnings |= begun
                every = list(dict.fromkeys(name for word in words for name in self._names(word)))
            for _, place in self._found(every, [base]):
                if not stat.S_ISDIR(self._mode(place)) or place in self._bases:
                    continue
                if everywhere or self._leads_to_it(place):
                    if len(self._bases) >= self._most_bases:
                        self.has_more = True
                        return self._bases[first:]
                    self._bases.append(place)
        return self._bases[first:]

    def program(self, index: int, word: str) -> Iterator[Named]:
        """The files that the system may start for a name: each match on ``PATH``, or a path; also outside the project.

        The system goes on to the next match where it cannot execute one: a script of a Python that was moved, a
        program for another machine, a file without the right to execute it.

        Args:
            index: of the word that leads there.
        """
        for name in (word,) if os.sep not in word else self._names(word):
            yield from self._programs(index, name)

    def _programs(self, index: int, name: str) -> Iterator[Named]:
        for place in self._on_path(name) if os.sep not in name else (_place(str(self._cwd), name),):
            mode = self._mode(place)
            # In the project, a tool may give a file the right to execute it.
            if stat.S_ISREG(mode) and (mode & 0o111 or self.is_ours(Path(place))):
                yield Named(index, name, Path(place), "")

    def _on_path(self, word: str) -> Iterator[str]:
        return (_place(folder, word) for folder in self._path) if word else iter(())

    def absent_program(self, word: str) -> Iterator[tuple[str, str]]:
        """As ``absent``, for the program: at its path, or in the folders of ``PATH``.

        The system reads its word as it is, and adds no suffix.
        """
        if not is_path(word):
            return
        for place in _places(str(self._cwd), word) if os.sep in word else self._on_path(word):
            if not self._mode(place) and self.is_ours(Path(place)):
                yield from _missing(place)

    def further_programs(self, begun: Iterable[Named], words: Sequence[str]) -> Iterator[Named]:
        """The programs that the other words name (``env node``, ``sh -c 'npx eslint'``), and all interpreters.

        The interpreters are those in the first lines of scripts, wherever a script lies: ``/usr/bin/npx`` begins with
        ``#!/usr/bin/env node``, which takes the project's ``node`` if one of its folders is first on ``PATH``.

        Args:
            begun: the program and the files that words name.
            words: the arguments and the values of the environment.
        """
        left = list(begun)
        known = {each.path for each in left}

        def new(found: Iterable[Named]) -> Iterator[Named]:
            for each in found:
                if each.path not in known:
                    known.add(each.path)
                    left.append(each)
                    yield each

        for index, word in enumerate(words, 1):
            for name in dict.fromkeys(self._names(word)):
                if not self.may_look(name, len(self._path)):
                    break
                yield from new(self._programs(index, name))
        for script in left:  # the list grows during the loop, since an interpreter may be a script too
            for word in self.interpreters_of(script.path):
                yield from new(self.program(script.word, word))
            if script.path.parts[-3:-1] == (_PACKAGES, _PROGRAMS):
                found = map(Path, self._package_at(str(script.path)))
                yield from new(Named(script.word, script.name, each, "") for each in found)

    def interpreters_of(self, file: Path) -> Sequence[str]:
        """The names of programs in the first line of a script; each word may be one: ``#!/usr/bin/env -Sserver``."""
        if file not in self._interpreters:
            self._interpreters[file] = tuple(chain.from_iterable(map(begun_at, interpreter(file))))
        return self._interpreters[file]

    def named(self, word: int, text: str) -> Iterator[Named]:
        """The files and folders that an argument or a value names, also files named without their suffix."""
        found: dict[str, str] = {}
        for name, place in self._found(list(self._names(text)), self._bases):
            found.setdefault(place, name)
        for place, name in found.items():
            path = Path(place)
            if self.is_ours(path):
                yield Named(word, name, path, "")

    def absent(
        self, words: Sequence[str], search_paths: Sequence[str], free: Data
    ) -> Iterator[tuple[str, str]]:
        """The files that words would name if they were there, each as its folder and a glob for its name.

        A program starts such a file as soon as somebody makes it: a package beside a module of its name, a package's
        ``__init__``, a folder of ``PYTHONPATH``, the file after ``--load=``.

        Args:
            words: the program, its arguments, and the values of its environment.
            search_paths: the values that list folders.
            free: files that may change, also if they do not exist yet.
        """
        certain = {each for value in search_paths for each in value.split(os.pathsep)}
        for text in (words, *map(shell_words, words)):
            certain |= {word for before, word in pairwise(text) if re.fullmatch(MODULE_FLAG, before)}
            certain |= {joined[1] for word in text if (joined := re.match("-[A-Za-ln-z]*m(.+)", word))}
            paths = (word.partition("=")[2] for word in text if re.match(r"\w*PATH=", word))
            certain.update(each for value in paths for each in value.split(os.pathsep))
        for name in dict.fromkeys(chain(certain, *map(self._names, words[1:]))):
            for base in self._bases[:2]:
                if not self.may_look(name):
                    return
                for place in _places(base, name):
                    found = self._absent(place, base, name, is_certain=name in certain)
                    yield from (each for each in found if not free.has(Path(*each)))

    def _absent(self, place: str, base: str, name: str, *, is_certain: bool) -> Iterator[tuple[str, str]]:
        """As ``absent``, for one name.

        Args:
            place: where the name leads from ``base``.
            is_certain: the name is a module's or a folder's, also if it has no slash and no suffix.
        """
        folder, last = os.path.split(place)
        if name.startswith("-") or (not last and not is_certain) or not self.is_ours(Path(place)):
            return
        has_namesakes = key_of(last) in self._listing(folder)
        if not self._mode(place) and (is_certain or has_namesakes or "/" in name or _FILE_NAME.search(name)):
            yield from _missing(place)
            if is_certain or has_namesakes:
                yield folder, f"{escape(last)}.*"
        if "/" in name and stat.S_ISDIR(self._mode(place)):
            yield folder, f"{escape(last)}.*"  # node prefers `server.js` to the folder
        if name in ("", ".") and is_certain:
            yield from ((base, each) for each in ("sitecustomize*", "usercustomize*"))
        parts = last.lstrip(".").split(".")
        is_module = all(parts) and (is_certain or key_of(parts[0]) in self._listing(folder))
        # Python prefers `tools/__init__.py` to `tools.so`, that to `tools.py`, and that to a folder without `__init__`.
        for depth in range(1, len(parts) + 1) if is_module else ():
            above, package = os.path.split(os.path.join(folder, *parts[:depth]))  # noqa: PTH118
            if not stat.S_ISDIR(self._mode(f"{above}/{package}")):
                yield above, escape(package)
            for suffix in _MODULE_GLOBS:
                yield above, f"{escape(package)}{suffix}"
                yield f"{above}/{package}", f"__init__{suffix}"

    def unknown(self, word: str, named: Sequence[Named], free: Data) -> Iterator[str]:
        """The paths in a word that name nothing, although a folder on the way or the end of the path does.

        Only the program knows their meaning: ``github.com/shop/tools/run``, ``tools/target``.

        Args:
            named: what the word names.
            free: files that may change, also if they do not exist yet.
        """
        for text in reversed(self._decoded(word)):
            for path in dict.fromkeys(filter(is_path, SIGN.split(text))):
                if any(path in each.name for each in named) or self._has(begun_at(path)):
                    continue
                is_free = any(free.has(Path(_place(base, path))) for base in self._bases)
                # Looking a part up takes time by its length, so the parts of a very long path are not looked up.
                if not is_free and (path.count("/") > _MOST_PARTS or self._has(parts_of(path))):
                    yield path

    def _has(self, names: Iterable[str]) -> bool:
        """Whether a name leads to something of the project that can be covered."""
        found = (Path(place) for _, place in self._found(list(filter(is_path, names)), self._bases))
        return any(
            self.is_ours(path) and not any(top.is_relative_to(path) for top in self.tops) for path in found
        )

    def _names(self, word: str) -> Iterator[str]:
        """The parts of a word that may name a file: ``server.py``, ``--load=server.py``, ``-rserver.js``,
        ``cd a && ./run.sh``, ``./server.js#part``, ``file:///a%20b.js``.
        """
        # A shell joins a line that ends in a backslash, and a URL loses tabs and line ends.
        forms = dict.fromkeys([word, word.replace("\\\n", ""), re.sub(r"[\t\r\n]", "", word)])
        written = dict.fromkeys(text for form in forms for text in (form, *shell_words(form)))
        texts = dict.fromkeys(text for each in written for text in self._decoded(each))
        names: dict[str, None] = {}
        for text in texts:
            names.update(dict.fromkeys([text, *self._parts(text)]))
        yield from filter(is_path, names)

    def _decoded(self, text: str) -> list[str]:
        """A text, and what programs make of it that decode the ``%20`` of URLs or the escapes of JSON.

        Also one within the other, and JSON in a string of JSON.
        """
        found = [text]
        for each in found:  # the list grows during the loop
            for plain in (unquote(each, errors="surrogateescape"), json_unescaped(each)):
                if plain not in found:
                    if len(found) >= _MOST_READINGS:
                        self.has_more = True
                        return found
                    found.append(plain)
        return found

    def _parts(self, text: str) -> Iterator[str]:
        """The parts of a text between any two signs; those that contain signs only where an entry begins like them."""
        edges = sorted({0, len(text), *(edge for sign in SIGN.finditer(text) for edge in sign.span())})
        joined: list[str] = []
        for index, (first, end) in enumerate(pairwise(edges)):
            for part in begun_at(text[first:end]):
                start = end - len(part)
                yield part
                if self._is_begun(part):
                    # Up to the longest name of a file, so a long text takes time by its length and not by its square.
                    last = bisect_right(edges, start + _LONGEST_JOINED)
                    joined += (text[start:each] for each in edges[index + 2 : last])
        yield from joined

    def _is_begun(self, name: str) -> bool:
        head = name.partition("/")[0]
        if not head.strip("."):
            return True  # an absolute path, or one that starts at a folder's own links `.` and `..`
        return not self._beginnings.isdisjoint((beginning(head), beginning(head.partition(".")[0])))

    def _found(self, names: Sequence[str], bases: Sequence[str]) -> Iterator[tuple[str, str]]:
        """What names lead to below folders: files and folders, modules, linked packages; each as it was read."""
        for look in (self._same, self._module):
            for name in names:
                # `.` and `..` are the working directory's own.
                is_placed = name.startswith(os.sep) or not name.strip("./")
                for base in bases[:1] if is_placed else bases:
                    if not self.may_look(name):
                        return
                    yield from look(base, name)

    def may_look(self, name: str, folders: int = 1) -> bool:
        """Whether a further name may be looked up in so many folders; a long path counts as several."""
        self._lookups -= folders + name.count("/") // 16
        self.has_more = self.has_more or self._lookups < 0
        return self._lookups >= 0

    def _module(self, base: str, name: str) -> Iterator[tuple[str, str]]:
        folder, module = os.path.split(name)
        *packages, _ = parts = module.lstrip(".").split(".")
        if not all(parts) or (folder and (not packages or stat.S_ISREG(self._mode(_place(base, name))))):
            return  # a path to a file, and no module
        if key_of(parts[0]) not in self._listing(_place(base, folder)):
            return
        if packages:
            yield from self._same(base, str(Path(folder, *parts)))
        for depth in range(1, len(parts) + 1):
            package = str(Path(folder, *parts[:depth]))
            if depth <= len(packages):
                yield from self._same(base, f"{package}/__init__")
            # Python prefers such a file to a folder that has no `__init__`, and to a file without a suffix.
            for file in self._with_suffix(_place(base, package)):
                if file.endswith(MODULE_SUFFIXES):
                    yield package, file

    def _linked_package(self, base: str, name: str) -> Iterator[tuple[str, str]]:
        """The project's own package that npm has linked by a name, or one of whose programs has the name.

        npm links the packages of a monorepo at its root, and looks there from each folder below it.
        Of ``@shop/mcp@1.0.0`` the name is known as ``shop/mcp``.
        """
        if name.count("/") > 1:
            return
        if base not in self._installed:
            above = (each for each in with_above([base]) if self.project.has(each))
            folders = (f"{each}{os.sep}{_PACKAGES}" for each in above)
            self._installed[base] = [each for each in folders if stat.S_ISDIR(self._mode(each))]
        # A program starts another one by its name: `npx cross-env A=1 shop-mcp`.
        links = (f"{_PROGRAMS}/{name}", *(() if name in self._no_packages else (name, f"@{name}")))
        places = (f"{each}/{link}" for each in self._installed[base] for link in links)
        yield from ((name, each) for place in places for each in self._package_at(place))

    def _package_at(self, link: str) -> Iterator[str]:
        """The project's own package to which a link in ``node_modules`` leads, or a script that replaces a link."""
        if not os.path.lexists(link):
            return
        place = Path(link)
        leads = (place, *(() if place.is_symlink() else linked_by_script(place)))
        for real in map(Path, map(real_path, leads)):
            if _PACKAGES not in real.parts and self.project.has(real):
                above = (each for each in (real, *real.parents) if self._mode(f"{each}/package.json"))
                yield str(next(above, real))

    def _same(self, base: str, name: str) -> Iterator[tuple[str, str]]:
        for place in _places(base, name):
            mode = self._mode(place)
            if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
                yield name, place
            if not stat.S_ISREG(mode):
                yield from ((name, each) for each in self._with_suffix(place))
            elif place.endswith(".py"):
                found = self._with_suffix(place.removesuffix(".py"))
                yield from ((name, each) for each in found if Path(each).parent.name == CACHES)
        yield from self._linked_package(base, name)

    def places(self, entry: str) -> Iterator[Path]:
        """The paths that an entry of ``data`` may mean."""
        yield from (Path(_place(base, entry)) for base in self._bases if "\0" not in entry)

    def _with_suffix(self, place: str) -> Iterator[str]:
        """The files that a program finds for a name without a suffix, and those that Python compiled from them."""
        folder, name = os.path.split(place)
        for each in (folder, f"{folder}{os.sep}{CACHES}"):
            for file in self._listing(each).get(key_of(name), ()):
                is_longer = len(file.name) > len(name) and stat.S_ISREG(self._mode(str(file)))
                if is_longer and not (self._compiled_apart and is_timed(file)):
                    yield str(file)

    def _listing(self, folder: str) -> Mapping[str, list[Path]]:
        """The entries of a folder of the project or above it, by their name and each part of it that ends before a dot.

        Empty for a folder that cannot be read.
        """
        if folder not in self._entries_in:
            found: dict[str, list[Path]] = {}
            if stat.S_ISDIR(self._mode(folder)) and self._leads_to_it(folder):
                # A folder above the project may be closed; what is named below it is still looked up.
                with suppress(PermissionError):
                    for file in sorted(Path(folder).iterdir()):
                        for stem in stems(file.name):
                            found.setdefault(key_of(stem), []).append(file)
            self._entries_in[folder] = found
        return self._entries_in[folder]

    def _mode(self, place: str) -> int:
        """The mode of the file at a path, links followed; 0 if there is none."""
        if place not in self._modes:
            try:
                self._modes[place] = Path(place).stat().st_mode
            except (OSError, ValueError):
                self._modes[place] = 0
        return self._modes[place]

    def is_ours(self, path: Path) -> bool:
        """Whether a path is in the project, as written or with links resolved."""
        return self.project.has(Path(os.path.normpath(path))) or self.project.has(Path(real_path(path)))

    def _leads_to_it(self, place: str) -> bool:
        path = Path(place)
        return self.is_ours(path) or any(each.is_relative_to(path) for each in self.tops)


def _place(base: str, name: str) -> str:
    """The path that a name leads to. ``..`` is kept out of it, because a link before ``..`` would lead elsewhere."""
    if name.startswith("//"):
        name = f"/{name.lstrip('/')}"  # two slashes at the beginning are one, but `Path` would keep them
    if ".." not in name and ".." not in base:
        return os.path.normpath(name if name.startswith("/") else f"{base.rstrip('/')}/{name}")
    return plain_path(Path(base, name))


def _places(base: str, name: str) -> Iterator[str]:
    """The paths that a name may lead to: node and a shell read ``link/..`` as text, Python as the system does."""
    place = _place(base, name)
    yield place
    if ".." in name and (text := os.path.normpath(Path(base, name))) != place:
        yield text


def _missing(place: str) -> Iterator[tuple[str, str]]:
    """A file that is not there, and the file that would be there if a link leads nowhere, each as folder and glob."""
    for each in dict.fromkeys((place, real_path(place))):
        folder, name = os.path.split(each)
        yield folder, escape(name)
