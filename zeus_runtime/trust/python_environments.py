"""The virtual environments whose Python a command may start: it executes files there before any of its options hold."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import cache
from glob import escape
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zeus_runtime.disk_paths import is_file, links_passed, real_path
from zeus_runtime.trust.package_runners import LookedUp

if TYPE_CHECKING:
    from zeus_runtime.trust.parts import Project

_MARK: Final = "pyvenv.cfg"
_MARKS: Final = (_MARK, "conda-meta")
_PROGRAMS: Final = ("bin", "Scripts")


def environments(named: Iterable[Path], project: Project) -> Iterator[LookedUp]:
    """The environments of the project that words name, or that have a program or a folder of ``PATH``.

    Args:
        named: what the words of a command name, there or not.
    """
    # A script may start a program that no word of the command names.
    on_path = (project.directory / each / "python" for each in project.path.split(os.pathsep) if each)
    for file in dict.fromkeys(chain(_ways(named), on_path)):
        near = (file.parent, file.parent.parent)
        is_of_programs = near[0].name in _PROGRAMS
        if is_of_programs or (is_file(file) and os.access(file, os.X_OK)):
            # Also where there is none: Python takes packages from where a new one says.
            yield from (LookedUp(each, _MARK, True) for each in near if project.has(each))
        folders = {file: False}
        if is_of_programs:
            folders[near[1]] = not os.path.lexists(near[1])
        for folder, is_to_be_made in folders.items():
            if not (is_to_be_made or is_environment(folder)) or not project.has(folder):
                continue
            if not any(each.is_relative_to(folder) for each in project.places):
                yield LookedUp(folder.parent, escape(folder.name), True)


def is_environment(folder: Path) -> bool:
    """Whether a folder is a virtual environment of Python."""
    return any(os.path.lexists(f"{folder}/{each}") for each in _MARKS)


def _ways(files: Iterable[Path]) -> Iterator[Path]:
    """Files, each link on the way to one, and where they lead: an environment's Python is a link to another one."""

    @cache
    def is_behind_link(folder: Path) -> bool:
        return os.pardir in folder.parts or any(map(os.path.islink, (folder, *folder.parents)))

    for file in files:
        yield file
        # `Path.is_symlink` raises for a name that is too long.
        if file.name == os.pardir or os.path.islink(file) or is_behind_link(file.parent):  # noqa: PTH114
            yield from map(Path, sorted(links_passed([str(file)])))
            yield Path(real_path(file))
