"""Files as they were when a message named them or a tool gave them: kept once, under a name made of their content."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Final

from zeus_runtime.tools.paths import WorkspaceError

if TYPE_CHECKING:
    from zeus_runtime.tools.workspace import WorkspaceFiles

ROUTE: Final = "/attached_files/"
"""Where they are kept; the agent's own folder of this name would be hidden by it."""

_MADE: Final = ".made-"
_KEPT: Final = re.compile(rf"({ROUTE}[0-9a-f]{{16}}/)[^/]+\Z")


def keep(data: bytes, name: str, files: WorkspaceFiles) -> str:
    """Keep ``data`` and give its path; what is there already stays as it is.

    Args:
        name: what the file was called; a path's last part counts.

    Raises:
        WorkspaceError: it cannot be written.
    """
    last = re.sub(r"[^\w.-]+", "_", name.rstrip("/").rpartition("/")[2])[-100:].lstrip(".") or "file"
    files = files.runtime
    path = f"{ROUTE}{hashlib.sha256(data).hexdigest()[:16]}/{last}"
    try:
        same = files.read(path, max_bytes=len(data) + 1) == data
    except WorkspaceError:
        same = False
    if not same:
        files.write(path, data)
    return path


def beside(path: str, name: str) -> str | None:
    """A path for what is made of a kept file's bytes, which goes with the file; None for one that is not ``keep``'s."""
    kept = _KEPT.match(path)
    return None if kept is None else f"{kept[1]}{_MADE}{name}"


def forget(path: str, files: WorkspaceFiles) -> None:
    """Remove a kept file, and what was made of its bytes if no other name has them; one that is gone is no error.

    Raises:
        WorkspaceError, OSError: it cannot be removed.
    """
    files = files.runtime
    files.remove(path, with_folder=True)
    kept = _KEPT.match(path)
    try:
        left = files.entries(kept[1]) if kept else []
    except WorkspaceError:
        return
    if all(each.name.startswith(_MADE) for each in left):
        for each in left:
            files.remove(each.path, with_folder=True)
