"""Where the workspace's virtual paths lie on this machine, and all the virtual paths that lead to one place."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import takewhile
from pathlib import Path
from typing import Final, TypeAlias

from zeus_runtime.disk_paths import are_one_folder, real_path
from zeus_runtime.tools.access import Name
from zeus_runtime.tools.paths import folded, join, split
from zeus_runtime.tools.patterns import has_magic, parts_of

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
        self._real: dict[str, str] = {}

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
            (prefix, base, below) for prefix, base in bases if (below := parts_below(base, host)) is not None
        ]
        written = [base for prefix, base, _ in inside if prefix in self._written]
        return tuple(
            Name(
                (*prefix, *below),
                len(prefix) + max((len(parts_below(base, at) or ()) for at in written), default=0),
            )
            for prefix, base, below in inside
        )

    def written(self, parts: Parts) -> str:
        """Where a path lies on this machine as the config writes its mount: the mount's own links are not followed."""
        prefix, host = self.of(parts)
        return os.path.normpath("/".join((str(host), *parts[len(prefix) :])))

    def names_of_written(self, path: str) -> Iterator[Name]:
        """The virtual paths of a path that ``written`` gives, here or in a sub-agent's workspace."""
        for prefix, at in (((), self.root), *self.folders.items()):
            below = parts_below(os.path.normpath(at), path)
            if below is not None:
                yield Name((*prefix, *below))

    def parts_outside(self, path: str) -> Parts:
        """The parts of an absolute path that leads to no mount, below the nearest folder that it shares with one.

        The names above are those of the user's own folders, and no rule about the workspace means them.
        """
        parts = parts_of(path)
        folders = (self.root, *self.folders.values())
        bases = [parts_of(each) for at in folders for each in (str(at), self.real(at))]
        shared = max(sum(1 for _ in takewhile(_is_same, zip(parts, base, strict=False))) for base in bases)
        return parts[shared:] or parts[-1:]

    def pattern_of(self, pattern: str) -> str | None:
        """The workspace's pattern for one that is a path of this machine into it, which matches nothing; else None.

        Args:
            pattern: without braces.
        """
        parts = parts_of(pattern)
        fixed = tuple(takewhile(lambda part: not has_magic(part), parts))
        # A file of the workspace has such a path too: then the pattern means it.
        if not pattern.startswith("/") or not fixed or os.path.lexists(self.host_of(fixed)):
            return None
        host = real_path("/" + "/".join(fixed))
        # With the root `/`, it is the workspace's path too. A route to `/` contains each path, also a missing one.
        is_known = os.path.lexists(host) or any(
            base != "/" and parts_below(base, host) is not None for base in self.reals()
        )
        if self.real(self.root) == "/" or not is_known:
            return None
        names = self.names_of(host)
        return ("/".join(("", *names[0].parts, *parts[len(fixed) :])) or "/**") if names else None

    def tails_of(self, host: str) -> list[Parts]:
        """A real path from the name of each mount's folder on that contains it."""
        found = ((base, parts_below(base, host)) for base in self.reals())
        return [(base.rpartition("/")[2], *below) for base, below in found if below is not None]

    def reals(self) -> list[str]:
        """The folder of each mount with its links resolved."""
        return [self.real(each) for each in (self.root, *self.folders.values())]

    def written_folders(self) -> Iterator[Path]:
        """The root and the folders of the routes that the YAML has, as they are written."""
        yield self.root
        yield from (folder for prefix, folder in self.folders.items() if prefix in self._written)

    def identity(self) -> str:
        """The SHA-256 of where the root and the YAML's routes lead; if it changes, a path may mean another file."""
        routes = sorted(
            (join(prefix), folder) for prefix, folder in self.folders.items() if prefix in self._written
        )
        places = [real_path(self.root)]
        for prefix, folder in routes:
            places += prefix, real_path(folder)
        return hashlib.sha256(os.fsencode("\0".join(places))).hexdigest()

    def real(self, folder: Path) -> str:
        """A mount's folder with its links resolved, asked again when they lead elsewhere."""
        return self._resolved(str(folder))

    def _resolved(self, folder: str) -> str:
        known = self._real.get(folder)
        if known is None or not self._leads_to(folder, known):
            known = self._real[folder] = real_path(folder)
        return known

    def _leads_to(self, folder: str, known: str) -> bool:
        """Whether a folder's links lead where they led before: to resolve them takes ten times as long.

        The folder's number alone does not say so: a new folder may have that of a removed one.
        """
        try:
            return os.path.samestat(os.stat(folder), os.lstat(known))  # noqa: PTH116 - asked several times for each file
        except OSError:
            # Nothing is at one of the two, so only the folders above can be compared.
            above, _, name = folder.rpartition("/")
            return known == f"{self._resolved(above or '/').rstrip('/')}/{name}"


def _is_same(pair: tuple[str, str]) -> bool:
    return pair[0] == pair[1]


_MOST_SPELLINGS: Final = 1_000


def spellings(path: str) -> list[str]:
    """Return all paths by which ``path`` leads to its file: the real path, then one for each link that is followed.

    A link is another name of all that is below its target, so each of these paths ends in what follows the link, with
    the links above it resolved.

    Raises:
        OSError: too many links are followed.
    """
    at = "/"
    todo = list(reversed((path if path.startswith("/") else f"{Path.cwd()}/{path}").split("/")))
    links: dict[tuple[str, str], None] = {}
    while todo:
        part = todo.pop()
        if part in ("", "."):
            continue
        if part == "..":
            at = os.path.dirname(at)  # noqa: PTH120
            continue
        here = f"{at.rstrip('/')}/{part}"
        try:
            target = os.readlink(here)  # noqa: PTH115
        except OSError:  # not a link, or not there
            at = here
            continue
        real = real_path(here)
        links.update(dict.fromkeys((each, real) for each in _spelled(here, links)))
        if len(links) > _MOST_SPELLINGS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        at = "/" if target.startswith("/") else at
        todo += reversed(target.split("/"))
    return _spelled(at, links)


def _spelled(real: str, links: Iterable[tuple[str, str]]) -> list[str]:
    found = {real: None}
    for link, target in links:
        below = parts_below(target, real)
        if below is not None:
            found["/".join((link, *below))] = None
    return list(found)


def parts_below(base: str, path: str) -> Parts | None:
    """The parts of a real path below a folder; None if it is not in it.

    The path may spell the folder otherwise, if the file system does not tell the two spellings apart.
    """
    if path == base:
        return ()
    start = base.rstrip("/") + "/"
    if path.startswith(start):
        return tuple(path[len(start) :].split("/"))
    names = base.split("/")
    depth = len(names)
    parts = path.split("/", depth)
    # The last first: most folders on the way are the same. Of a shorter path, its beginning "" is no name.
    for one, other in zip(names[::-1], parts[depth - 1 :: -1], strict=False):
        if one != other and folded(one) != folded(other):
            return None
    if not are_one_folder(base, "/".join(parts[:depth])):
        return None
    return tuple(parts[depth].split("/")) if len(parts) > depth else ()
