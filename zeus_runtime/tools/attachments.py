"""Keeps files as they were when a message named them or a tool returned them: once, under a name from their content."""

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
"""The virtual folder of kept files; it hides a folder of this name in the workspace."""

Kind: TypeAlias = Literal["resource", "attachment"]


@dataclass(frozen=True)
class GivenFile:
    """A file that is attached by its bytes, such as one that a client uploaded."""

    name: str
    data: bytes


_MADE: Final = ".made-"
_KEPT: Final = re.compile(rf"({ROUTE}[0-9a-f]{{16}}/)[^/]+\Z")


@dataclass(frozen=True)
class Reference:
    """A file that a message names or attaches.

    Args:
        kind: ``resource`` (``@path``) or ``attachment``.
        path: the path that the user wrote, or the attached file's name.
        handle: the path for the model's file tools: a resource's path, or an attachment's copy.
        copy: the path of the kept bytes.
        digest: SHA-256 of the bytes in hex; for a folder, of its list of names.
        problem: why there is nothing to show; the other fields are then empty.
        folder: it is a folder, and the copy is a list of its contents.
        picture: the picture for models that support pictures.
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
        """Return the form for the log: without empty fields, and without pictures, which are in their message."""
        return {key: value for key, value in asdict(self).items() if value and key != "picture"}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Reference:
        return cls(**{key: each for key, each in value.items() if key in cls.__dataclass_fields__})


def keep(data: bytes, name: str, files: WorkspaceFiles) -> str:
    """Keep ``data`` and return its path; an existing copy stays unchanged.

    Args:
        name: the file's name; of a path, the last part counts.

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
    """Return a path for a file derived from a kept file and removed with it; None if ``keep`` did not make ``path``."""
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
