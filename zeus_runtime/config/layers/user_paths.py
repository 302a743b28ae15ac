"""Paths as a user writes them, with ``~`` for a home folder."""

from __future__ import annotations

from pathlib import Path


def expanded(path: str | Path) -> Path:
    """``path`` with ``~`` or ``~user`` replaced by that home folder; unchanged where no such home is known."""
    written = Path(path)
    try:
        return written.expanduser()
    except RuntimeError:
        return written
