"""Files as they were when a message named them or a tool gave them: kept once, under a name made of their content."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from zeus_runtime.tools.paths import WorkspaceError

if TYPE_CHECKING:
    from zeus_runtime.models.pictures import Picture
    from zeus_runtime.tools.workspace import WorkspaceFiles

ROUTE: Final = "/attached_files/"
"""Where they are kept; the agent's own folder of this name would be hidden by it."""

Kind: TypeAlias = Literal["resource", "attachment"]

_MADE: Final = ".made-"
_KEPT: Final = re.compile(rf"({ROUTE}[0-9a-f]{{16}}/)[^/]+\Z")


@dataclass(frozen=True)
class Reference:
    """A file that a message brought along.

    Args:
        kind: ``resource`` (``@path``) or ``attachment``.
        path: what the user wrote, or the attached file's name.
        handle: under which the model can read it with its file tools: a resource's own path, an attachment's copy.
        copy: the path of the bytes as they were.
        digest: of the bytes, SHA-256 in hex; of a folder's list of names.
        problem: why there is nothing to show; the rest is then empty.
        folder: it is a folder, and the copy a list of what is in it.
        picture: what of it a model that sees is shown.
    """

    kind: Kind
    path: str
    handle: str = ""
    copy: str = ""
    digest: str = ""
    size_bytes: int = 0
    problem: str = ""
    folder: bool = False
    picture: Picture | None = None

    def as_json(self) -> dict[str, Any]:
        """The form that the log keeps; empty fields are left out, and pictures are with their message."""
        return {key: value for key, value in asdict(self).items() if value and key != "picture"}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Reference:
        return cls(**{key: each for key, each in value.items() if key in cls.__dataclass_fields__})


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
    """Remove a kept file, and the files made from its bytes if no other name has them; a missing one is not an error.

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
