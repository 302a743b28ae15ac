"""The project files that the words of a command name, and the content that a digest holds for each.

A word is read in every way in which programs read words; no program is treated by name.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zeus_runtime.disk_paths import links_passed, real_path, shown_below
from zeus_runtime.frozen import dataclass
from zeus_runtime.trust.command_words import is_expanded
from zeus_runtime.trust.file_content import (
    MOST_ENTRIES,
    Data,
    Held,
    Named,
    TooLargeError,
    content_of,
    folders_below,
    hex_of,
    mode_and_size,
)
from zeus_runtime.trust.name_search import NameSearch, with_above
from zeus_runtime.trust.package_runners import LookedUp, looked_up, package_arguments
from zeus_runtime.trust.python_environments import environments, is_environment
from zeus_runtime.trust.scripts import script_text
from zeus_runtime.trust.started_files import files_started, first_argument

if TYPE_CHECKING:
    from zeus_runtime.trust.parts import Project


MOST_BYTES: Final = 8 << 20
"""Bytes that the files in the folders of one command may hold to be covered."""
_WORKED_IN: Final = (
    "the files in this folder are not covered, because it is or holds the working directory, the workspace or the"
    " config's folder"
)
_TOO_LARGE: Final = (
    f"the files in this folder are not covered, because there are more than {MOST_ENTRIES:,} files and folders, or"
    f" {MOST_BYTES >> 20} MiB"
)


@dataclass(frozen=True)
class Covered:
    """The project files that a digest covers.

    Args:
        named: the files that the words name, without ``data``.
        unsplit: the words that a shell would expand, so the files they name are unknown.
        unknown: words with a path that names nothing but has a part that does, each with this path.
        has_more: the words name more folders than are searched for names, or more names than are looked up.
        refused: the entries of ``data`` that name a file that the command starts.
        started: what the command starts as far as its words show, and what the first argument names: no advice may
            name them as ``data``.
        absent: files that are not there and that the words would name, each as its folder and a glob for its name.
        linked: the entries of ``data`` that are a link, are behind one, or are a further name of a covered file, each
            with the reason why its content counts.
        looked_up: what package runners and Python find in the project by themselves; no digest holds it.
        reads_on: what the command starts lies in the project, a package runner starts there, or a word names a virtual
            environment there: it may read more files of the project than its words name.
    """

    named: tuple[Named, ...]
    unsplit: tuple[int, ...] = ()
    unknown: tuple[tuple[int, str], ...] = ()
    has_more: bool = False
    refused: tuple[str, ...] = ()
    absent: tuple[tuple[str, str], ...] = ()
    linked: tuple[tuple[str, str], ...] = ()
    started: tuple[Path, ...] = ()
    looked_up: tuple[LookedUp, ...] = ()
    reads_on: bool = False

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files and folders whose content is in the digest."""
        return tuple(dict.fromkeys(each.path for each in self.named if each.is_covered))

    @property
    def held(self) -> tuple[Held, ...]:
        """The files whose content is in the digest, each with its SHA-256."""
        return tuple(dict.fromkeys(chain.from_iterable(each.held for each in self.named)))


def covered(
    words: Sequence[str],
    project: Project,
    *,
    cwd: str = ".",
    env: Sequence[str] = (),
    search_paths: Sequence[str] = (),
    data: Sequence[str] = (),
    compiled_apart: bool = False,
) -> Covered:
    """The files that a command names.

    Args:
        words: the program and its arguments.
        cwd: its working directory; relative to the project's.
        env: the values of its environment.
        search_paths: those of them that list folders, such as the value of ``PYTHONPATH``.
        data: files and folders whose content may change, as they are named: never what a link at one, on its way or
            below it leads to.
        compiled_apart: the command uses no compiled files of Python beside sources.
    """
    every = (*words, *env)
    search = NameSearch(
        project,
        project.directory / cwd,
        compiled_apart=compiled_apart,
        no_packages=package_arguments(words, env),
    )
    inside = search.grow(every[1:])
    named = [list(search.named(index, word)) for index, word in enumerate(every[1:], 1)]
    begun = [*search.program(0, words[0]), *chain.from_iterable(named)]
    programs = list(search.further_programs(begun, every[1:]))
    found = [each for each in (*begun, *programs) if search.is_ours(each.path)]
    started = files_started(begun, words, programs)
    places = {entry: [*search.places(entry)] for entry in data}
    exempt = {
        entry: Data(each for each in found if _link_above(each, search.tops) is None)
        for entry, found in places.items()
    }
    refused = tuple(entry for entry, each in exempt.items() if any(map(each.has, started)))
    free = Data.of(each for entry, each in exempt.items() if entry not in refused)
    content = _Content(search, compiled_apart=compiled_apart)
    read = [content.read(each, free) for each in found if not free.has(each.path)]
    read += content.further_names(read, free)
    unsplit = tuple(index for index, word in enumerate(every) if index and is_expanded(word))
    unknown = [
        (index, path)
        for index, (word, each) in enumerate(zip(every[1:], named, strict=True), 1)
        for path in islice(search.unknown(word, each, free), 1)
    ]
    interpreters = [*chain.from_iterable(search.interpreters_of(each.path) for each in (*begun, *programs))]
    names = (words[0], *interpreters)
    absent = dict.fromkeys(
        chain(
            chain.from_iterable(map(search.absent_program, dict.fromkeys(names))),
            search.absent(every, search_paths, free),
        )
    )
    linked = (
        (entry, why)
        for entry in data
        for why in islice(_links(places[entry], (each.path for each in read), search), 1)
    )
    of_runners = (
        *looked_up(
            (*words, *interpreters, *chain.from_iterable(map(script_text, dict.fromkeys(started)))),
            [each for each in with_above((project.directory / cwd, *inside)) if project.has(each)],
        ),
    )
    # Not what a runtime would start in `.`, where most programs only work; another line says that it is not covered.
    known = [each.path for each in read if each.is_covered]
    is_started = any(project.has(each) and any(map(each.is_relative_to, known)) for each in started)
    names_environment = any(is_environment(each.path) for each in begun if search.is_ours(each.path))
    return Covered(
        tuple(read),
        unsplit,
        tuple(unknown),
        search.has_more,
        refused,
        tuple(absent),
        tuple(linked),
        (*started, *(each.path for each in first_argument(begun, words))),
        (
            *of_runners,
            *environments(
                (*(each.path for each in (*begun, *programs)), *(Path(*each) for each in absent)), project
            ),
        ),
        reads_on=bool(of_runners) or is_started or names_environment,
    )


def folders_named(words: Sequence[str], project: Project) -> Sequence[str]:
    """The folders that the words of a command name, in the project or not; ``covered`` looks for files in the same.

    Args:
        project: its directory is the command's working directory.
    """
    search = NameSearch(project, project.directory, compiled_apart=True)
    return search.grow(words, everywhere=True)


class _Content:
    """Reads the content of the files that the words of one command name; all its folders share the limits.

    Args:
        search: the search that found them.
        compiled_apart: the command uses no compiled files of Python beside sources.
    """

    def __init__(self, search: NameSearch, *, compiled_apart: bool) -> None:
        self._search = search
        self._compiled_apart = compiled_apart
        self._entries, self._bytes = MOST_ENTRIES, MOST_BYTES

    def read(self, named: Named, free: Data) -> Named:
        """The same name with the content that the digest holds for it.

        Args:
            free: files that may change.
        """
        try:
            resolved = Path(real_path(named.path))
            # Outside of the project no tool changes the target; the link itself may be turned elsewhere.
            if not self._search.project.has(resolved):
                return replace(named, content=f"a link to {resolved}")
            if not resolved.is_dir():
                content = content_of(resolved)
                return replace(named, content=content, held=((named.path, hex_of(content)),))
            if any(top.is_relative_to(resolved) for top in self._search.tops):
                return replace(named, content=_WORKED_IN, is_covered=False)
            return self._folder(named, free)
        except TooLargeError:
            return replace(named, content=_TOO_LARGE, is_covered=False)
        except OSError as error:
            return replace(named, content=f"cannot be read: {error.strerror}")

    def further_names(self, read: Sequence[Named], free: Data) -> Iterator[Named]:
        """The further names (hard links) that covered files have among the data: who writes there changes them."""
        several: dict[tuple[int, int], Named] = {}
        for each in read:
            for file, _ in each.held:
                status = _lstat(Path(real_path(file)))
                if status is not None and status.st_nlink > 1:
                    several[status.st_dev, status.st_ino] = each
        for file in free.files() if several else ():
            if not self._search.may_look(""):
                return
            status = _lstat(file)
            same = None if status is None else several.get((status.st_dev, status.st_ino))
            if same is not None:
                yield self.read(replace(same, name=file.name, path=file), free)

    def _folder(self, named: Named, free: Data) -> Named:
        content, count, left = sha256(), 0, self._bytes
        held: list[Held] = []
        errors: list[tuple[Path, OSError]] = []

        def add(entry: Path, what: str) -> None:
            if os.path.islink(entry):  # noqa: PTH114 - False also in a folder that this user may not enter
                what = f"{what}, a link to {self._target(entry, named.path)}"
            name = os.fsencode(entry.relative_to(named.path).as_posix())
            # With the length first, because a file's name may hold blanks and what looks like a digest.
            content.update(b"%d %s %s\0" % (len(name), name, os.fsencode(what)))

        def closed(error: OSError) -> None:
            errors.append((Path(error.filename), error))
            if len(errors) > self._entries:
                raise TooLargeError

        below = folders_below(
            named.path, self._entries, free, compiled_apart=self._compiled_apart, unread=closed
        )
        for files, links in below:
            # A folder that several links lead to is read once, so each of them counts by where it leads.
            for link in links:
                add(link, "a folder")
            for file in files:
                count += 1
                try:
                    mode, size = mode_and_size(file)
                    left -= size
                    if left < 0:
                        raise TooLargeError
                    what = hex_of(content_of(file)) if stat.S_ISREG(mode) else "not a file"
                except OSError as error:
                    errors.append((file, error))
                    continue
                if stat.S_ISREG(mode):
                    held.append((file, what))
                add(file, what)
        # One entry that cannot be read, such as a link to itself, must not hide the content of the others.
        for entry, _ in errors:
            add(entry, "cannot be read")
        # All folders of a command share the limits, so many small ones cannot make a check slow either.
        self._entries, self._bytes = self._entries - count, left
        noun = "file" if count == 1 else "files"
        return replace(
            named,
            content=f"a folder with {count:,} {noun}, sha256 {content.hexdigest()}",
            held=tuple(held),
            unread=tuple((entry, f"cannot be read: {error.strerror}") for entry, error in errors),
        )

    def _target(self, link: Path, folder: Path) -> str:
        """Where a link in a covered folder leads; relative in the project, which may lie anywhere."""
        target = real_path(link)
        return (
            os.path.relpath(target, real_path(folder)) if self._search.project.has(Path(target)) else target
        )


def _link_above(place: Path, tops: Collection[Path]) -> Path | None:
    """A link in the project on the way of a place: whoever writes there may turn it."""
    links = sorted(map(Path, links_passed([str(place.parent)])))
    return next((link for link in links if not set(tops).isdisjoint(link.parents)), None)


def _links(places: Iterable[Path], covered: Iterable[Path], search: NameSearch) -> Iterator[str]:
    """Why the content of an entry of ``data`` counts.

    Args:
        places: the paths that it may mean.
        covered: the files whose content counts.
    """
    files, directory = set(covered), search.project.directory
    for place in places:
        if (link := _link_above(place, search.tops)) is not None:
            yield f"does not count, it is behind the link {shown_below(link, directory)}"
        elif os.path.islink(place):  # noqa: PTH114 - raises nothing
            target = shown_below(Path(real_path(place)), directory)
            yield f"a link to {target}: does not count, only the link itself may change"
        elif Path(real_path(place)) in files:
            yield "does not count, it is a further name (hard link) of a file whose content counts"


def _lstat(file: Path) -> os.stat_result | None:
    """The status of a file; None for a link, a folder, and a file that is not there."""
    try:
        status = file.lstat()
    except OSError:
        return None
    return status if stat.S_ISREG(status.st_mode) else None
