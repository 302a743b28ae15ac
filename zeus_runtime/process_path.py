"""The ``PATH`` of this process: its libraries start programs that they look up there, such as ``uname``.

No permission is asked for these programs, so none may be a file that an agent can write: a project's
``node_modules/.bin`` or ``.venv/bin`` is often on ``PATH``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Final

from zeus_runtime.disk_paths import places_passed, plain_path, real_path


class _ProcessPath:
    """Sets ``PATH`` for what is wanted at the moment, in whichever order the wishes begin and end."""

    def __init__(self) -> None:
        self.lock: Final = Lock()
        self.owners = 0
        self.importing = 0
        self.inside: dict[str, None] = {}
        self._given: str | None = None
        self._is_set = False

    def given(self) -> dict[str, str]:
        """The environment with the ``PATH`` from before."""
        found = dict(os.environ)
        if self._is_set:
            found.pop("PATH", None)
            if self._given is not None:
                found["PATH"] = self._given
        return found

    def update(self) -> None:
        """Set the ``PATH`` of the process, or put the former one back."""
        environ = self.given()
        if self.importing:
            environ["PATH"] = os.defpath
        elif self.owners:
            environ["PATH"] = searched_path(environ.get("PATH", os.defpath), tuple(self.inside))
        if not self._is_set:
            self._given = os.environ.get("PATH")
        self._is_set = bool(self.importing or self.owners)
        if (path := environ.get("PATH")) is None:
            os.environ.pop("PATH", None)
        else:
            os.environ["PATH"] = path


_PATH: Final = _ProcessPath()


def narrow_process() -> Callable[[], None]:
    """Let libraries find no program in the working directory, in a relative folder, or in those of ``pass_over``.

    For a process that is Zeus's own. Programs that the user chose are looked up on the ``PATH`` of ``given_environ``.

    Returns:
        puts the former ``PATH`` back.
    """
    with _PATH.lock:
        _PATH.owners += 1
        with suppress(FileNotFoundError):  # it was removed
            _PATH.inside.update(dict.fromkeys(folder_places([Path.cwd()])))
        _PATH.update()

    def give_back() -> None:
        with _PATH.lock:
            _PATH.owners -= 1
            if not _PATH.owners:
                _PATH.inside.clear()
            _PATH.update()

    return give_back


def pass_over(folders: Iterable[str | Path]) -> None:
    """Let libraries find no program in these folders either; it does nothing unless the process is narrowed."""
    with _PATH.lock:
        if _PATH.owners:
            _PATH.inside.update(dict.fromkeys(folder_places(folders)))
            _PATH.update()


def given_environ() -> dict[str, str]:
    """The environment of this process, with the ``PATH`` that its user gave it."""
    with _PATH.lock:
        return _PATH.given()


def divided_python_path(path: str) -> tuple[str, str]:
    """A ``PYTHONPATH`` without the folders in which an agent may work, and these folders."""
    with _PATH.lock:
        inside = [*_PATH.inside]
    with suppress(FileNotFoundError):  # it was removed
        inside += folder_places([Path.cwd()])
    first = [*searched(path, inside)]
    last = [entry for entry in path.split(os.pathsep) if entry and entry not in first]
    return os.pathsep.join(first), os.pathsep.join(last)


@contextmanager
def system_programs() -> Iterator[None]:
    """While inside, libraries of this process find only the system's programs.

    For imports of libraries that call ``ctypes.util.find_library``, which starts ``gcc`` and ``ld``: a program that
    uses Zeus as a library has its own ``PATH``.
    """
    with _PATH.lock:
        _PATH.importing += 1
        _PATH.update()
    try:
        yield
    finally:
        with _PATH.lock:
            _PATH.importing -= 1
            _PATH.update()


def searched_path(path: str, inside: Sequence[str]) -> str:
    """A ``PATH`` without the folders that are in one of ``inside``, and without those that are not absolute."""
    # An empty PATH would mean the working directory; below a file, nothing is found.
    return os.pathsep.join(searched(path, inside)) or os.devnull


def searched(path: str, inside: Sequence[str]) -> Iterator[str]:
    """The entries of ``PATH`` that Zeus searches; a relative one depends on the folder in which Zeus was started."""
    for entry in dict.fromkeys(path.split(os.pathsep)):
        if os.path.isabs(entry) and not passes(entry, inside):  # noqa: PTH117
            yield entry


def passes(path: str, folders: Sequence[str]) -> bool:
    """Whether an absolute path is in one of the folders, or leads through a link that is: that link may be changed."""
    return any(_is_in(place, folders) for place in places_passed(path))


def folder_places(folders: Iterable[str | Path]) -> list[str]:
    """The folders, as written and with links resolved."""
    found = (place for each in folders for place in (plain_path(each), real_path(each)))
    return list(dict.fromkeys(found))


def _is_in(place: str, folders: Sequence[str]) -> bool:
    # Each run looks for git, and pathlib takes ten times as long.
    return any(place == each or place.startswith(each.rstrip(os.sep) + os.sep) for each in folders)
