"""Where the workspace's virtual paths lie on this machine, and all the virtual paths that lead to one place."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TypeAlias

from zeus_runtime.tools.access import Name
from zeus_runtime.tools.paths import split

Parts: TypeAlias = tuple[str, ...]


class Mounts:
    """The workspace's root and its routes.

    Args:
        root: the real folder that ``/`` means.
        routes: virtual prefix to real folder; the longest prefix wins.
        written: the prefixes that the YAML itself has, not the runtime's own.
    """

    def __init__(self, root: Path, routes: Mapping[str, Path], written: Collection[str] = ()) -> None:
        self.root = root
        self.folders: Mapping[Parts, Path] = {split(prefix): host for prefix, host in routes.items()}
        self._written = frozenset(split(prefix) for prefix in written)
        self._real: dict[tuple[str, int, int], str] = {}

    def of(self, parts: Parts) -> tuple[Parts, Path]:
        """The mount that a path is in: its prefix and its folder."""
        for length in range(len(parts), 0, -1):
            host = self.folders.get(parts[:length])
            if host is not None:
                return parts[:length], host
        return (), self.root

    def host_of(self, parts: Parts) -> str:
        """Where a path lies on this machine if no link leads elsewhere."""
        prefix, host = self.of(parts)
        return "/".join((self.real(host).rstrip("/"), *parts[len(prefix) :])) or "/"

    def names_of(self, host: str) -> tuple[Name, ...]:
        """The virtual paths of a real path: one below each mount that contains it."""
        bases = [
            ((), self.real(self.root)),
            *((prefix, self.real(at)) for prefix, at in self.folders.items()),
        ]
        inside = [
            (prefix, base, below) for prefix, base in bases if (below := _below(base, host)) is not None
        ]
        written = [base for prefix, base, _ in inside if prefix in self._written]
        return tuple(
            Name(
                (*prefix, *below),
                len(prefix) + max((len(_below(base, at) or ()) for at in written), default=0),
            )
            for prefix, base, below in inside
        )

    def reals(self) -> list[str]:
        """The folder of each mount with its links resolved."""
        return [self.real(each) for each in (self.root, *self.folders.values())]

    def real(self, folder: Path) -> str:
        """A mount's folder with its links resolved, asked again when another folder is there."""
        text = str(folder)
        try:
            status = os.stat(text)  # noqa: PTH116 - asked several times for each file
            key = (text, status.st_dev, status.st_ino)
        except OSError:
            key = (text, 0, 0)
        if key not in self._real:
            self._real[key] = os.path.realpath(text)
        return self._real[key]


def _below(base: str, path: str) -> Parts | None:
    """The parts of a real path below a folder; None if it is not in it."""
    if path == base:
        return ()
    start = base.rstrip("/") + "/"
    return tuple(path[len(start) :].split("/")) if path.startswith(start) else None
