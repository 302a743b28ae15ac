"""The further paths of folders, parts of which are mounted at a second place of this machine (Linux)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple


class _Mount(NamedTuple):
    device: str
    root: str
    at: str


def mount_table() -> str:
    """The mounts of this process; empty where the system does not list them."""
    try:
        return Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


def mounted_again(folders: Iterable[Path], table: str) -> Iterator[Path]:
    """The other places where what is in these folders is mounted, and where they are if they are in one.

    Args:
        folders: real paths.
        table: as ``mount_table`` gives it.
    """
    lines = (line.split(" ", 5) for line in table.splitlines())
    mounts = [_Mount(device, _plain(root), _plain(at)) for _, _, device, root, at, _ in lines]
    for folder in map(str, folders):
        within = [each for each in mounts if _is_in(folder, each.at)]
        if not within:
            continue
        # The innermost; of several at one place, the last is the one that is seen.
        own = max(reversed(within), key=lambda each: len(each.at))
        place = own.root.rstrip("/") + folder.removeprefix(own.at.rstrip("/"))
        for each in mounts:
            if each.device != own.device or each == own:
                continue
            if _is_in(each.root, place):
                yield Path(each.at)
            elif _is_in(place, each.root):
                yield Path(each.at.rstrip("/") + place.removeprefix(each.root.rstrip("/")))


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def _plain(text: str) -> str:
    """A path as it is: the table has a space as ``\\\\040``."""
    if "\\" not in text:
        return text
    octal = re.sub(rb"\\([0-7]{3})", lambda found: bytes([int(found[1], 8)]), os.fsencode(text))
    return os.fsdecode(octal)
