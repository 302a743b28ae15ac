"""The places of a path whose names may be written in another case or Unicode form, on a disk that tells them apart."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from zeus_runtime.tools.paths import WorkspaceError, folded

SETTLED_NANOSECONDS: Final = 2_000_000_000
"""A folder that was changed later than so before a look may change again within the same tick of its file system."""

_MOST_PLACES: Final = 1_000
_MOST_KEPT: Final = 1_000


Names: TypeAlias = Mapping[str, Sequence[str]]
"""The folders and links in a folder, by their folded names."""


class LikeNames:
    """The folders and links with like names. A folder is listed again when it has changed. Safe to use from threads."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[object, Names]] = {}

    def below(self, folder: str, parts: Sequence[str], listed: dict[str, Names]) -> list[str]:
        """The absolute paths that ``parts`` may mean below a folder; links are not resolved.

        Each part means the name itself, there or not, and all folders and links of the same fold.

        Args:
            listed: the folders of this look, each listed once; this adds to them.

        Raises:
            WorkspaceError: there are too many.
        """
        places = [folder]
        for part in parts:
            found: list[str] = []
            for at in places:
                if at not in listed:
                    listed[at] = self._names(at)
                like = listed[at].get(folded(part), ())
                found += [f"{at.rstrip('/')}/{name}" for name in dict.fromkeys((part, *like))]
            if len(found) > _MOST_PLACES:
                raise WorkspaceError(
                    "The workspace has too many folders or links whose names differ in case or Unicode form alone,"
                    " where a rule of workspace.access names one.",
                    remedy="Tell the user to remove them.",
                )
            places = found
        return places

    def _names(self, folder: str) -> Names:
        try:
            status = os.stat(folder)  # noqa: PTH116 - each tool call asks
        except OSError:
            return {}
        times = status.st_mtime_ns, status.st_ctime_ns
        state = status.st_dev, status.st_ino, *times
        kept = self._kept.get(folder)
        if kept is not None and kept[0] == state:
            return kept[1]
        names = _listed(folder)
        if time.time_ns() - max(times) > SETTLED_NANOSECONDS:
            if len(self._kept) > _MOST_KEPT:
                self._kept.clear()
            self._kept[folder] = state, names
        return names


def _listed(folder: str) -> Names:
    found: dict[str, list[str]] = {}
    try:
        with os.scandir(folder) as entries:
            for each in entries:
                # Files have no name through a link, and most entries are files.
                if each.is_symlink() or each.is_dir():
                    found.setdefault(folded(each.name), []).append(each.name)
    except OSError:  # not a folder, or closed to the user: Zeus cannot read it either
        return {}
    return found
