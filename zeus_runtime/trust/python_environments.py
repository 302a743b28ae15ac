"""The virtual environments whose Python a command may start: it executes files there before any of its options hold."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from glob import escape
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zeus_runtime.disk_paths import is_file, links_passed, real_path
from zeus_runtime.trust.package_runners import LookedUp

if TYPE_CHECKING:
    from zeus_runtime.trust.parts import Project

_MARK: Final = "pyvenv.cfg"
_AT_START: Final = ("*.pth", "sitecustomize*", "usercustomize*")
"""In its folders of packages. ``-I`` leaves out only the user's own."""
_PACKAGES: Final = ("lib*/python*/site-packages", "lib*/pypy*/site-packages", "Lib/site-packages")


def environments(programs: Iterable[Path], project: Project) -> Iterator[LookedUp]:
    """What Python finds by itself in the environments of the project that programs, or folders of ``PATH``, lie in.

    Args:
        programs: the programs that a command starts, as they are named.
    """
    # A script may start a program that no word of the command names.
    on_path = (project.directory / each for each in project.path.split(os.pathsep) if each)
    started = chain((each.parent for program in programs for each in _ways(program)), on_path)
    for folder in dict.fromkeys(chain.from_iterable((each, each.parent) for each in started)):
        if project.has(folder):
            yield from _found_in(folder, is_work=any(each.is_relative_to(folder) for each in project.places))


def _found_in(folder: Path, *, is_work: bool) -> Iterator[LookedUp]:
    # Also where it is missing: Python takes packages from where a new one says.
    yield LookedUp(folder, _MARK, True)
    if is_file(folder / _MARK) and not is_work:
        yield LookedUp(folder.parent, escape(folder.name), True)
        return
    # A Python of its own, or an environment with the work in it, as in an image whose `/app` is one.
    for packages in chain.from_iterable(map(folder.glob, _PACKAGES)):
        yield from (LookedUp(packages, name, True) for name in _AT_START)


def _ways(program: Path) -> Iterator[Path]:
    """A program, each link on the way to it, and where they lead: an environment's Python is a link to another one."""
    yield program
    yield from map(Path, sorted(links_passed([str(program)])))
    yield Path(real_path(program))
