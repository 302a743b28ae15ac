"""The places of a path whose names may be written in another case or Unicode form, on a disk that tells them apart."""

from __future__ import annotations

import os
import time
from typing import Final

from zeus_runtime.tools.paths import WorkspaceError, folded

SETTLED_NANOSECONDS: Final = 2_000_000_000
"""A folder that was changed later than so before a look may change again within the same tick of its file system."""

_MOST_PLACES: Final = 1_000
_MOST_KEPT: Final = 10_000


class LikeNames:
    """The folders and links with like names. A folder is listed again when it has changed. Safe to use from threads."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], tuple[object, tuple[str, ...]]] = {}

    def below(self, folder: str, parts: tuple[str, ...]) -> list[str]:
        """The absolute paths that ``parts`` may mean below a folder; links are not resolved.

        Each part means the name itself, there or not, and all folders and links of the same fold.

        Raises:
            WorkspaceError: there are too many.
        """
        places = [folder]
        for part in parts:
            places = [f"{at.rstrip('/')}/{name}" for at in places for name in self._like(at, part)]
            if len(places) > _MOST_PLACES:
                raise WorkspaceError(
                    "The workspace has too many folders or links whose names differ in case or Unicode form alone,"
                    " where a rule of workspace.access names one.",
                    remedy="Tell the user to remove them.",
                )
        return places

    def _like(self, folder: str, part: str) -> tuple[str, ...]:
        try:
            status = os.stat(folder)  # noqa: PTH116 - each tool call asks
        except OSError:
            return (part,)
        times = status.st_mtime_ns, status.st_ctime_ns
        state = status.st_dev, status.st_ino, *times
        kept = self._kept.get((folder, part))
        if kept is not None and kept[0] == state:
            return kept[1]
        names = _listed(folder, part)
        if time.time_ns() - max(times) > SETTLED_NANOSECONDS:
            if len(self._kept) > _MOST_KEPT:
                self._kept.clear()
            self._kept[folder, part] = state, names
        return names


def _listed(folder: str, part: str) -> tuple[str, ...]:
    same = folded(part)
    try:
        with os.scandir(folder) as found:
            # Files have no name through a link, and most entries are files.
            like = [
                each.name
                for each in found
                if (each.is_symlink() or each.is_dir()) and folded(each.name) == same and each.name != part
            ]
    except OSError:  # missing, not a folder, or closed to the user: Zeus cannot read it either
        like = []
    return (part, *sorted(like))
