"""What is in a folder that gives secrets: files of variables, and repositories directly below it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from zeus_runtime.config.secrets.written_secrets import kept_in

ENV_NAME: Final = ".env"
KNOWN_DEPTH: Final = 1
"""Folders below one that an agent works in, down to which the secrets of repositories and of a ``.env`` are known."""
BEFORE_KEYS: Final = (".", "#")
"""The first character of a name by which a file holds keys; editors and programs that copy files put further ones
before and behind that name."""
_MOST_FOLDERS: Final = 1_000
_MOST_ENTRIES: Final = 10_000
_MOST_FOUND: Final = 100


def is_env_name(name: str) -> bool:
    """Whether a name is that of a file of variables: ``.env``, ``.envrc``, ``.env.local``, ``.prod.env``."""
    return name.startswith(BEFORE_KEYS) and ENV_NAME in name.lower()


class _Listing(NamedTuple):
    modified_ns: int
    folders: Sequence[str] = ()
    env_files: Sequence[Path] = ()


class FolderListings:
    """Finds the files of variables in a folder, and what is in the folders directly in it: clones beside each other.

    A folder is listed again once an entry in it came or went.

    Args:
        is_passed_over: whether a folder with this name counts as if it were not there.
    """

    def __init__(self, is_passed_over: Callable[[str], object] = lambda _: False) -> None:
        self._listed: dict[Path, _Listing] = {}
        self._is_passed_over = is_passed_over

    def copy(self) -> FolderListings:
        """One that starts from what this one has listed."""
        other = FolderListings(self._is_passed_over)
        other._listed = dict(self._listed)
        return other

    def repositories(self, folder: Path) -> Iterator[Path]:
        """The folders in which Git keeps the repositories directly in ``folder``, in the order of their names; of the
        first hundred at most."""
        found = (kept for each in self._listing(folder).folders for kept in _kept_beside(each))
        return islice(found, _MOST_FOUND)

    def env_files(self, folder: Path, *, below: bool = False) -> Iterator[Path]:
        """The files of variables in ``folder``, its ``.env`` whether it is there or not.

        Args:
            below: also each ``.env`` of the folders directly in it, of the first hundred at most.
        """
        yield folder / ENV_NAME
        listing = self._listing(folder)
        yield from listing.env_files
        if below:
            # Texts and not paths: a workspace may have hundreds of folders, and each look asks about all.
            places = (f"{each}/{ENV_NAME}" for each in listing.folders)
            yield from map(Path, islice(filter(os.path.lexists, places), _MOST_FOUND))

    def _listing(self, folder: Path) -> _Listing:
        try:
            modified_ns = folder.stat().st_mtime_ns
            listed = self._listed.get(folder)
            if listed is None or listed.modified_ns != modified_ns:
                with os.scandir(folder) as entries:
                    counted = (each for each in entries if not self._is_passed_over(each.name))
                    found = sorted(
                        (each.path, each.name, each.is_dir()) for each in islice(counted, _MOST_ENTRIES)
                    )
                folders = [path for path, _, is_folder in found if is_folder]
                files = [Path(path) for path, name, _ in found if is_env_name(name)]
                listed = _Listing(modified_ns, folders[:_MOST_FOLDERS], files[:_MOST_FOUND])
                self._listed[folder] = listed
        except OSError:
            return _Listing(0)
        return listed


def _kept_beside(folder: str) -> Iterator[Path]:
    if os.path.lexists(f"{folder}/.git"):
        yield from kept_in(Path(os.path.realpath(folder), ".git"))
