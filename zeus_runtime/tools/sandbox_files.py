"""The files of sandboxes between programs: a folder for each session on this machine, and how old ones go."""

from __future__ import annotations

import hashlib
import re
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from zeus_runtime.tools.paths import WorkspaceError, printable
from zeus_runtime.tools.sandbox import WORKING_FOLDER, SandboxError, SandboxFile
from zeus_runtime.tools.workspace import WorkspaceFiles

FOLDER: Final = ".zeus/sandboxes"
"""Where backends keep sessions' files unless their options say otherwise, below the working directory."""

_SAFE: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}\Z")
_DAY_SECONDS: Final = 86_400


def session_folder(root: Path, session: str) -> Path:
    """The folder of one session below ``root``; nothing is made."""
    name = session if _SAFE.match(session) else f"session-{hashlib.sha256(session.encode()).hexdigest()[:40]}"
    return root / name


def remove_folder(root: Path, session: str) -> None:
    """Remove the folder of one session; one that is not there is no error."""
    shutil.rmtree(session_folder(root, session), ignore_errors=True)


def remove_older(root: Path, *, max_age_days: float, spare: str) -> int:
    """Remove the folders of sessions in which no program ran for ``max_age_days``.

    Args:
        spare: a session whose folder stays.

    Returns:
        how many went.
    """
    kept = session_folder(root, spare).name
    oldest = time.time() - max_age_days * _DAY_SECONDS
    gone = 0
    with suppress(FileNotFoundError):
        for folder in root.iterdir():
            with suppress(FileNotFoundError):
                if folder.name != kept and folder.is_dir() and folder.lstat().st_mtime < oldest:
                    shutil.rmtree(folder, ignore_errors=True)
                    gone += 1
    return gone


class SandboxFiles:
    """What a program left, and what the next one finds: reading, writing and listing without running anything.

    Args:
        folder: the session's folder on this machine; it is made when something is written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files = WorkspaceFiles(folder)

    def make(self) -> Path:
        """The folder, which is there from now on and for its owner alone."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self.folder

    def read(self, path: str, *, max_bytes: int) -> bytes:
        """A file's content.

        Raises:
            SandboxError: there is none, or it is larger than ``max_bytes``.
        """
        try:
            return self._files.read(inner_path(path), max_bytes=max_bytes)
        except (WorkspaceError, FileNotFoundError) as error:
            raise _explained(path, error) from None

    def write(self, path: str, data: bytes) -> None:
        """Make ``data`` a file's content.

        Raises:
            SandboxError: the place is no file.
        """
        self.make()
        try:
            self._files.write(inner_path(path), data)
        except WorkspaceError as error:
            raise _explained(path, error) from None

    def list(self, path: str = WORKING_FOLDER, *, max_files: int = 1_000) -> Sequence[SandboxFile]:
        """What is below a folder.

        Raises:
            SandboxError: there is no such folder.
        """
        inner = inner_path(path)
        if not self.folder.exists() and inner == "/":
            return []
        found: list[SandboxFile] = []
        try:
            for entry in self._files.walk(inner, on_error=lambda _error: None):
                if len(found) >= max_files:
                    break
                if entry.kind == "other":
                    continue
                size = self._files.entry(entry.path).size if entry.kind == "file" else None
                found.append(SandboxFile(f"{WORKING_FOLDER}{entry.path}", entry.kind, size))
        except (WorkspaceError, FileNotFoundError) as error:
            raise _explained(path, error) from None
        return found


def inner_path(path: str) -> str:
    """A path as programs see it, as one below the working folder: ``/workspace/a`` and ``a`` are ``/a``.

    Raises:
        SandboxError: it lies elsewhere.
    """
    if path == WORKING_FOLDER or path.startswith(f"{WORKING_FOLDER}/"):
        return path[len(WORKING_FOLDER) :] or "/"
    if path.startswith("/"):
        raise SandboxError(
            f"{printable(path)} is not in {WORKING_FOLDER}; only what is there is kept",
            remedy=f"Use a path such as {WORKING_FOLDER}/result.csv.",
        )
    return f"/{path}"


def _explained(path: str, error: WorkspaceError | FileNotFoundError) -> SandboxError:
    if isinstance(error, FileNotFoundError):
        return SandboxError(f"{printable(path)} does not exist in the sandbox")
    return SandboxError(f"in the sandbox: {error.message}")
