"""Names that find a file although its folder does not list them, so that no rule knows them.

Windows keeps a short name (8.3) of each long one: ``ENV~1`` is ``.env`` on a Windows folder in WSL, on SMB and FAT.
``x:stream`` names a stream of ``x`` there.
"""

from __future__ import annotations

import os
import re
from typing import Final

from zeus_runtime.disk_paths import places_passed
from zeus_runtime.tools.paths import folded

_SIGNS: Final = re.compile("[~:]")
"""One of them is in each such name; a folder is listed only for a name that has one."""


def is_unlisted(folder: str | int, name: str) -> bool:
    """Whether a folder has a file by a name that it lists neither so nor, as the same file, in another case.

    Also true if the folder cannot be listed: nobody can tell then.

    Args:
        folder: its path, or an open descriptor.
    """
    if not _SIGNS.search(name):
        return False
    opened = folder if isinstance(folder, int) else None
    try:
        found = os.stat(_at(folder, name), dir_fd=opened, follow_symlinks=False)
    except (OSError, ValueError):
        return False
    try:
        listed = os.listdir(folder)  # noqa: PTH208 - a descriptor has no Path
        if name in listed:
            return False
        # `env~1` may be listed beside `ENV~1`, the short name of `.env`.
        alike = (each for each in listed if folded(each) == folded(name))
        return not any(
            os.path.samestat(found, os.stat(_at(folder, each), dir_fd=opened, follow_symlinks=False))
            for each in alike
        )
    except OSError:
        return True


def passes_unlisted(path: str) -> bool:
    """Whether the system passes an unlisted name on the way to an absolute path, links followed."""
    return any(is_unlisted(*os.path.split(place)) for place in places_passed(path))


def _at(folder: str | int, name: str) -> str:
    return name if isinstance(folder, int) else f"{folder}/{name}"
