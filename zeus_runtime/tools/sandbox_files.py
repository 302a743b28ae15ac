"""The files of sandboxes between programs, in a folder on this machine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from zeus_runtime.escaping import printable
from zeus_runtime.tools.own_folders import LinkedFolderError
from zeus_runtime.tools.paths import WorkspaceError
from zeus_runtime.tools.sandbox import WORKING_FOLDER, SandboxError, SandboxFile
from zeus_runtime.tools.sandbox_folders import make_session_folder
from zeus_runtime.tools.workspace import WorkspaceFiles


class SandboxFiles:
    """Reads, writes and lists a session's files without running a program.

    Args:
        folder: the session's folder on this machine; it is created at the first write.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files = WorkspaceFiles(folder)

    def make(self) -> Path:
        """Create the folder if needed, accessible only to its owner, and return it.

        Raises:
            LinkedFolderError: a link leads there.
        """
        make_session_folder(self.folder)
        return self.folder

    def read(self, path: str, *, max_bytes: int) -> bytes:
        """Return a file's content.

        Raises:
            SandboxError: the file does not exist, or is larger than ``max_bytes``.
        """
        self._require_own()
        try:
            return self._files.read(inner_path(path), max_bytes=max_bytes)
        except (WorkspaceError, FileNotFoundError) as error:
            raise _explained(path, error) from None

    def write(self, path: str, data: bytes) -> None:
        """Replace a file's content by ``data``.

        Raises:
            SandboxError: the path is not a file.
        """
        self.make()
        try:
            self._files.write(inner_path(path), data)
        except WorkspaceError as error:
            raise _explained(path, error) from None

    def list(self, path: str = WORKING_FOLDER, *, max_files: int = 1_000) -> Sequence[SandboxFile]:
        """Return the files below a folder.

        Raises:
            SandboxError: there is no such folder.
        """
        inner = inner_path(path)
        self._require_own()
        if not self.folder.exists() and inner == "/":
            return []
        found: list[SandboxFile] = []
        try:
            for entry in self._files.walk(inner, sizes=True, on_error=lambda _error: None):
                if len(found) >= max_files:
                    break
                if entry.kind == "other":
                    continue
                found.append(SandboxFile(f"{WORKING_FOLDER}{entry.path}", entry.kind, entry.size))
        except (WorkspaceError, FileNotFoundError) as error:
            raise _explained(path, error) from None
        return found

    def _require_own(self) -> None:
        if self.folder.is_symlink():
            raise LinkedFolderError(self.folder)


def inner_path(path: str) -> str:
    """Convert a path of programs to a path below the working folder: ``/workspace/a`` and ``a`` become ``/a``.

    Raises:
        SandboxError: it is outside of the working folder, or not a valid path.
    """
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise SandboxError("the path holds characters that no file name can have") from None
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
