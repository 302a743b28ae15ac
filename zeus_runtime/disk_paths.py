"""Paths on the disk: ``~`` for a home folder, and links resolved."""

from __future__ import annotations

import os
from pathlib import Path


def expanded(path: str | Path) -> Path:
    """``path`` with ``~`` or ``~user`` replaced by that home folder; unchanged where no such home is known."""
    written = Path(path)
    try:
        return written.expanduser()
    except RuntimeError:
        return written


def plain_path(path: str | Path) -> str:
    """``path`` without ``.`` and ``..``, as the system reads it: a link before ``..`` leads elsewhere than the text."""
    place = Path(path)
    if ".." not in place.parts:
        return os.path.normpath(place)
    return real_path(place) if place.name == ".." else str(Path(real_path(place.parent)) / place.name)


def real_path(path: str | Path) -> str:
    """``path`` with its links resolved, up to a link that this user may not read, such as ``/proc/1/cwd``.

    Before Python 3.13 ``os.path.realpath`` raises for such a link.
    """
    try:
        return os.path.realpath(path)
    except OSError as error:
        return str(error.filename)
