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


def keep(data: bytes, name: str, files: WorkspaceFiles) -> str:
    """Keep ``data`` and give its path; what is there already stays as it is.

    Args:
        name: what the file was called; a path's last part counts.

    Raises:
        WorkspaceError: it cannot be written.
    """
    last = re.sub(r"[^\w.-]+", "_", name.rstrip("/").rpartition("/")[2])[-100:].lstrip(".") or "file"
    path = f"{ROUTE}{hashlib.sha256(data).hexdigest()[:16]}/{last}"
    try:
        same = files.read(path, max_bytes=len(data) + 1) == data
    except WorkspaceError:
        same = False
    if not same:
        files.write(path, data)
    return path
