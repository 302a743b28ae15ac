"""Retention of archived originals, by age and by size, oldest first. The log keeps the messages themselves."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from zeus_runtime.tools.own_folders import opened_to_remove

_SECONDS_PER_DAY: Final = 86_400
_BYTES_PER_MEGABYTE: Final = 1_000_000


@dataclass(frozen=True)
class Kept:
    """An archived file.

    Args:
        path: on the host.
        size_bytes: its size.
        changed_seconds: when it was last modified, in seconds since the epoch.
    """

    path: Path
    size_bytes: int
    changed_seconds: float


def expired(
    files: Iterable[Kept], now_seconds: float, *, max_age_days: float | None, max_megabytes: float | None
) -> Sequence[Kept]:
    """The files to remove: those older than the age, then the oldest ones until the rest fits the size.

    The newest file stays whatever its size, since the latest original must stay readable.

    Args:
        now_seconds: the current time, in seconds since the epoch.
        max_age_days: days since a file was modified; None for any age.
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
            # A file that goes takes no room, so a smaller, older one may still stay.
            room += file.size_bytes
    return gone[::-1]


def collect(
    folders: Iterable[Path], now_seconds: float, *, max_age_days: float | None, max_megabytes: float | None
) -> int:
    """Remove the expired files in those of ``folders`` that Zeus made. Blocks on the disk.

    Returns:
        the number of removed files.

    Raises:
        LinkedFolderError: one of the folders is a link.
    """
    with ExitStack() as stack:
        opened = [_opened(folder, stack) for folder in folders]
        files = {file.path: (file, at) for at in opened if at is not None for file in _files(*at)}
        kept = [file for file, _ in files.values()]
        gone = expired(kept, now_seconds, max_age_days=max_age_days, max_megabytes=max_megabytes)
        for file in gone:
            with suppress(FileNotFoundError):
                # In the opened folder: its path may lead elsewhere by now, through a link.
                os.unlink(file.path.name, dir_fd=files[file.path][1][1])
    return len(gone)


def _opened(folder: Path, stack: ExitStack) -> tuple[Path, int] | None:
    try:
        descriptor = stack.enter_context(opened_to_remove(folder))
    except (FileNotFoundError, NotADirectoryError):
        return None
    return None if descriptor is None else (folder, descriptor)


def _files(folder: Path, descriptor: int) -> Iterable[Kept]:
    with os.scandir(descriptor) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                status = entry.stat(follow_symlinks=False)
                yield Kept(folder / entry.name, status.st_size, status.st_mtime)
