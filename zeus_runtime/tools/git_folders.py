"""Finds the folders of Git around a path, whatever their names are."""

from __future__ import annotations

import os
from typing import Final

from zeus_runtime.tools.paths import folded

_GIT_HEAD: Final = "HEAD"
_BESIDE_HEAD: Final = (("objects", "refs"), ("commondir",))
GIT_NAMES: Final = (".git", _GIT_HEAD, *sorted({name for names in _BESIDE_HEAD for name in names}))
"""The names in a folder that `git_depth` asks for."""


def git_depth(host: str) -> int | None:
    """Return how many parts of a real path are below a git folder, whatever the folder's name is.

    A folder also counts if the file itself would make it a git folder. The search ends at the innermost working tree,
    because its files may be in a bare repository.
    """
    folder, _, below = host.rpartition("/")
    depth = 1
    while folder:
        if _has(folder, _GIT_HEAD, below) and any(
            all(_has(folder, name, below) for name in names) for names in _BESIDE_HEAD
        ):
            return depth
        if os.path.lexists(f"{folder}/.git"):
            return None
        folder, _, below = folder.rpartition("/")
        depth += 1
    return None


def _has(folder: str, name: str, below: str) -> bool:
    """Whether a folder has an entry of a name, or would have it with ``below``."""
    return folded(below) == folded(name) or os.path.lexists(f"{folder}/{name}")
