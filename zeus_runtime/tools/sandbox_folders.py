"""Where the files of sandboxes are between programs: a folder for each session, and how old ones go."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from zeus_runtime.tools.own_folders import LinkedFolderError, claim, opened, owned, remove_tree
from zeus_runtime.tools.sandbox import SandboxError

_SAFE: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}\Z")
_DAY_SECONDS: Final = 86_400


def session_folder(root: Path, session: str) -> Path:
    """The folder of one session below ``root``; nothing is made."""
    name = session if _SAFE.match(session) else f"session-{hashlib.sha256(session.encode()).hexdigest()[:40]}"
    return root / name


def make_session_folder(folder: Path) -> None:
    """Make a session's folder unless it is there, for its owner alone, and mark it as Zeus's.

    Raises:
        LinkedFolderError: a link leads there.
    """
    if folder.is_symlink():
        raise LinkedFolderError(folder)
    claim(folder)
    with opened(folder, create=True, mode=0o700):
        pass


def remove_folder(root: Path, session: str) -> None:
    """Remove the folder of one session; a missing one is not an error.

    Raises:
        SandboxError: Zeus did not make it.
        LinkedFolderError: a link leads there.
    """
    folder = session_folder(root, session)
    if not remove_tree(folder):
        raise SandboxError(f"{folder} stays: Zeus did not make it", remedy="Remove it yourself.")


def remove_older(root: Path, *, max_age_days: float, spare: str) -> int:
    """Remove the folders of sessions in which no program ran for ``max_age_days``; no folder that Zeus did not make.

    Args:
        spare: a session whose folder stays.

    Returns:
        how many went.

    Raises:
        LinkedFolderError: a link leads to ``root``.
    """
    kept = session_folder(root, spare).name
    oldest = time.time() - max_age_days * _DAY_SECONDS
    with suppress(FileNotFoundError), opened(root) as at:
        old = [name for name in os.listdir(at) if name != kept and _is_old(name, at, oldest)]  # noqa: PTH208
        return sum(owned(root / name) and remove_tree(root / name) for name in old)
    return 0


def _is_old(name: str, folder: int, oldest: float) -> bool:
    with suppress(FileNotFoundError):
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        return stat.S_ISDIR(status.st_mode) and status.st_mtime < oldest
    return False
