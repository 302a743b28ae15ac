"""How long archived originals stay: by age and by size, oldest first. The thread log keeps the messages themselves."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_MARKED: Final = b"The folder beside holds originals archived by Zeus; old ones go (archive: in the YAML).\n"
_SECONDS_PER_DAY: Final = 86_400
_BYTES_PER_MEGABYTE: Final = 1_000_000


@dataclass(frozen=True)
class Kept:
    """An archived file.

    Args:
        path: on the host.
        size_bytes: its size.
        changed_seconds: when it was last written to, since the epoch.
    """

    path: Path
    size_bytes: int
    changed_seconds: float


def expired(
    files: Iterable[Kept], now_seconds: float, *, max_age_days: float | None, max_megabytes: float | None
) -> Sequence[Kept]:
    """Which files go: those older than the age, then the oldest until the rest fits the size.

    The newest file stays whatever its size, since what was archived last must be there to be read.

    Args:
        now_seconds: since the epoch.
        max_age_days: days since a file was written to; None for any age.
        max_megabytes: of all files together, in millions of bytes; None for any size.
    """
    newest_first = sorted(files, key=lambda file: (-file.changed_seconds, file.path))
    oldest = float("-inf") if max_age_days is None else now_seconds - max_age_days * _SECONDS_PER_DAY
    room = float("inf") if max_megabytes is None else max_megabytes * _BYTES_PER_MEGABYTE
    gone: list[Kept] = []
    for place, file in enumerate(newest_first):
        room -= file.size_bytes
        if place > 0 and (room < 0 or file.changed_seconds < oldest):
            gone.append(file)
            room += file.size_bytes
    return gone[::-1]


def marker(folder: Path) -> Path:
    """The file beside ``folder`` that says: all in it was archived by Zeus. Beside, so that no listing shows it."""
    return folder.with_name(f".{folder.name}.zeus-archive")


def owned(folder: Path) -> bool:
    """Whether all in ``folder`` is Zeus's: it lies in a ``.zeus`` folder, or Zeus made it and left its marker."""
    return ".zeus" in folder.parts or marker(folder).is_file()


def claim(folder: Path) -> None:
    """Mark a folder that is missing or empty as Zeus's; one with files in it is somebody's, and stays so."""
    if owned(folder) or (folder.is_dir() and any(folder.iterdir())):
        return
    # A folder beside which nothing may be written stays without a marker: it is used, and never cleaned.
    with suppress(OSError):
        folder.parent.mkdir(parents=True, exist_ok=True)
        marker(folder).write_bytes(_MARKED)


def collect(
    folders: Iterable[Path], now_seconds: float, *, max_age_days: float | None, max_megabytes: float | None
) -> int:
    """Remove what has expired in those of ``folders`` that are Zeus's own. Blocks on the disk.

    Returns:
        how many files went.
    """
    files = [file for folder in folders if folder.is_dir() and owned(folder) for file in _files(folder)]
    gone = expired(files, now_seconds, max_age_days=max_age_days, max_megabytes=max_megabytes)
    for file in gone:
        file.path.unlink(missing_ok=True)
    return len(gone)


def _files(folder: Path) -> Iterable[Kept]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                status = entry.stat(follow_symlinks=False)
                yield Kept(Path(entry.path), status.st_size, status.st_mtime)
