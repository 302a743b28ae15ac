"""Finds the programs that Zeus starts for itself, such as ``git``, ``bwrap`` and ``docker``.

No permission is asked for them, so none may be a file that the agent can write: a project's ``node_modules/.bin`` or
``.venv/bin`` is often on ``PATH``. The programs of servers, hooks and commands are the user's choice and are found
on the whole ``PATH``.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from threading import Lock
from typing import Final

from zeus_runtime.disk_paths import places_passed, plain_path, real_path


def _nowhere() -> Sequence[Path]:
    return ()


class OwnPrograms:
    """Finds programs outside of the folders that agents work in.

    Args:
        environ: the process environment, with ``PATH``.
        folders: returns the folders whose files may change without the user's knowledge: the working directory, the
            workspaces, the routes.
    """

    def __init__(self, environ: Mapping[str, str], folders: Callable[[], Sequence[Path]] = _nowhere) -> None:
        self._environ = environ
        self._folders = folders

    def find(self, program: str) -> str | None:
        """Return the absolute path of a program; None if there is none, or only in one of the folders.

        A path, such as ``/opt/bin/bwrap``, is returned as it is: the user has chosen this very file.
        """
        if os.sep in program:
            return shutil.which(program)
        inside = self._inside()
        for entry in _searched(self._path, inside):
            found = shutil.which(program, path=entry)
            # A link outside may lead to a file or a link in one of the folders.
            if found is not None and not _passes(found, inside):
                return found
        return None

    def environ(self) -> dict[str, str]:
        """Return the process environment; its ``PATH`` has no folder of the agents, because programs start others."""
        return {**self._environ, "PATH": os.pathsep.join(_searched(self._path, self._inside()))}

    def alone(self) -> AbstractContextManager[None]:
        """While inside, libraries of this process find programs only outside of the folders too."""
        return _path_of_process(self.environ()["PATH"])

    @property
    def _path(self) -> str:
        return self._environ.get("PATH", os.defpath)

    def _inside(self) -> list[str]:
        """The folders, as written and with links resolved."""
        found = (place for each in self._folders() for place in (plain_path(each), real_path(each)))
        return list(dict.fromkeys(found))


def system_programs() -> AbstractContextManager[None]:
    """While inside, libraries of this process find only the system's programs.

    For imports of libraries that call ``ctypes.util.find_library``, which starts ``gcc`` and ``ld``.
    """
    return _path_of_process(os.defpath)


_CHANGING: Final = Lock()
_PATHS: Final[list[str]] = []
"""The ``PATH`` from before, then those of everything that is inside now; empty if nothing is."""


@contextmanager
def _path_of_process(path: str) -> Iterator[None]:
    """Set ``PATH`` for the whole process: the latest of several holds, in whichever order they end."""
    with _CHANGING:
        if not _PATHS:
            _PATHS.append(os.environ.get("PATH", os.defpath))
        _PATHS.append(path)
        os.environ["PATH"] = path
    try:
        yield
    finally:
        with _CHANGING:
            _PATHS.remove(path)
            os.environ["PATH"] = _PATHS[-1]
            if len(_PATHS) == 1:
                _PATHS.clear()


def _searched(path: str, inside: Sequence[str]) -> Iterator[str]:
    """The entries of ``PATH`` that Zeus searches; a relative one depends on the folder in which Zeus was started."""
    for entry in dict.fromkeys(path.split(os.pathsep)):
        if entry.startswith(os.sep) and not _passes(entry, inside):
            yield entry


def _passes(path: str, folders: Sequence[str]) -> bool:
    """Whether an absolute path is in one of the folders, or leads through a link that is: that link may be changed."""
    return any(_is_in(place, folders) for place in places_passed(path))


def _is_in(place: str, folders: Sequence[str]) -> bool:
    # Each run looks for git, and pathlib takes ten times as long.
    return any(place == each or place.startswith(each.rstrip(os.sep) + os.sep) for each in folders)
