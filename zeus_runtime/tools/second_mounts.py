"""Protected places that are reached by another path, because a folder or file is mounted twice.

A mount at a second place (``mount --bind``, a container's volumes) keeps device and inode, and shows no link.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from stat import S_ISLNK, S_ISREG

from zeus_runtime.disk_paths import real_path
from zeus_runtime.mount_table import mount_table

_Identity = tuple[int, int]


class SecondMounts:
    """Finds the paths by which protected places know a file that is at another path.

    Args:
        places: absolute paths of protected places, there or not; the last name may be a pattern.
    """

    def __init__(self, places: Iterable[str]) -> None:
        self._at: dict[_Identity, dict[str, None]] = {}
        self._above: dict[str, tuple[str, ...]] = {"": ()}
        known: set[str] = set()
        places = tuple(places)
        # Most machines mount nothing of these places twice, and then no file needs to be looked at.
        for place in () if mount_table().has_once(places) else places:
            at = place
            while at and at not in known:
                known.add(at)
                if (found := identity_of(at)) is not None:
                    self._at.setdefault(found, {})[at] = None
                    break
                # Of one that is missing, or that several paths name, the folder above it.
                at = at.rpartition("/")[0]

    def of(self, host: str) -> Sequence[str]:
        """The other paths of what is at a real path, or of a new file there."""
        if not self._at:
            return ()
        folder, _, name = host.rpartition("/")
        return (*(f"{each}/{name}" for each in self._folders(folder)), *self._same(host))

    def _folders(self, folder: str) -> tuple[str, ...]:
        if folder not in self._above:
            self._above[folder] = tuple(self.of(folder))
        return self._above[folder]

    def _same(self, host: str) -> list[str]:
        found = None if not host else identity_of(host)
        others = () if found is None else self._at.get(found, ())
        # A link on the way is no mount: what decides behind it is protected by its real path.
        return [each for each in others if each != host and real_path(each) != host]


def identity_of(path: str) -> _Identity | None:
    """The device and inode of a folder or file; None for a link, a missing file, and one with further names.

    A file with several names (hard links) is judged when it is opened: a write under one name leaves the others.
    """
    try:
        status = os.lstat(path)
    except (OSError, ValueError):
        return None
    has_more = S_ISREG(status.st_mode) and status.st_nlink > 1
    return None if has_more or S_ISLNK(status.st_mode) else (status.st_dev, status.st_ino)
