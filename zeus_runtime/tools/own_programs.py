"""Finds the programs that Zeus starts for itself, such as ``git``, ``bwrap`` and ``docker``.

No permission is asked for them, so none may be a file that the agent can write (``process_path``). The programs of
servers, hooks and commands are the user's choice and are found on the whole ``PATH``.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from zeus_runtime.process_path import folder_places, passes, searched, searched_path

_GIT: Final = (
    "--no-pager",
    "--no-optional-locks",
    "-c", "core.fsmonitor=false",
    "-c", "core.hooksPath=/dev/null",
    "-c", "core.untrackedCache=false",
)  # fmt: skip
_KEPT_VARIABLES: Final = ("PATH", "HOME", "XDG_CONFIG_HOME", "SYSTEMROOT")
_FIXED_VARIABLES: Final = {
    "LC_ALL": "C",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    # The user's own config may name files that these write.
    "GIT_TRACE2": "0",
    "GIT_TRACE2_EVENT": "0",
    "GIT_TRACE2_PERF": "0",
    # An empty list allows no transport, whatever protocol.<name>.allow says in the repository.
    "GIT_ALLOW_PROTOCOL": "",
}


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
        inside = folder_places(self._folders())
        for entry in searched(self._path, inside):
            found = shutil.which(program, path=entry)
            # A link outside may lead to a file or a link in one of the folders.
            if found is not None and not passes(found, inside):
                return found
        return None

    def environ(self) -> dict[str, str]:
        """Return the process environment; its ``PATH`` has no folder of the agents, because programs start others."""
        return {**self._environ, "PATH": searched_path(self._path, folder_places(self._folders()))}

    def git(self) -> tuple[Sequence[str], Mapping[str, str]] | None:
        """Return git's command, which arguments follow, and its environment; None if there is no git.

        Git executes nothing then that a repository's settings name, if the arguments open no file of the work tree.
        """
        program, environ = self.find("git"), self.environ()
        if program is None:
            return None
        kept = {name: environ[name] for name in _KEPT_VARIABLES if name in environ}
        return [program, *_GIT], kept | _FIXED_VARIABLES

    @property
    def _path(self) -> str:
        return self._environ.get("PATH", os.defpath)
