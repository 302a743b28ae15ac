"""Where the files of sandboxes are between programs: a folder for each session, and how old ones go."""

from __future__ import annotations

import hashlib
import re
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

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
