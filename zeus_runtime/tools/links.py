"""The names that links of the workspace give to files, so that a rule about a link also restricts what it leads to."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

from zeus_runtime.disk_paths import real_path
from zeus_runtime.frozen import dataclass
from zeus_runtime.tools.access import AccessRule, Name
from zeus_runtime.tools.like_names import LikeNames, Names
from zeus_runtime.tools.mounts import Mounts, Parts
from zeus_runtime.tools.paths import WorkspaceError, folded, split
from zeus_runtime.tools.patterns import parts_of, plain_beginning

# Limits, because a project may contain a link to a whole disk.
_MOST_ENTRIES: Final = 2_000
_MOST_LEVELS: Final = 8
_MOST_THROUGH_LINKS: Final = 100
_MOST_LINKED_FOLDERS: Final = 100

Targets: TypeAlias = "Mapping[Parts, Sequence[Parts]]"
"""The parts of a real path, folded, to the virtual paths that lead there through links."""

RESOLVED: ContextVar[dict[int, tuple[object, Any]] | None] = ContextVar("zeus_resolved_links", default=None)
"""Where links lead for the running tool call, which is short; None where they are resolved for each file."""


@dataclass(frozen=True)
class LinkedNames:
    """The names through links that some rule may match.

    The links on the way of a path that a rule spells out are resolved again for each call. Links that only a pattern
    matches are searched once, and resolved again for each call.

    Args:
        mounts: the workspace.
        rules: those that restrict files.
        skipped: names of folders that are not searched: package managers fill them with links to the project's code.
    """

    mounts: Mounts
    rules: Sequence[AccessRule]
    skipped: Sequence[str] = ()

    def of(self, host: str) -> Iterator[Name]:
        """Yield the names through links of the file at a real path."""
        targets = self.targets
        if not targets:
            return
        parts = parts_of(host)
        same = folded_parts(host)
        for length in range(len(parts) + 1):
            for name in targets.get(same[:length], ()):
                yield Name((*name, *parts[length:]), linked=True)

    @property
    def targets(self) -> Targets:
        """Where the links lead now."""
        if not self.rules:
            return {}
        return once_in_call(self, self._resolved)

    def _resolved(self) -> Targets:
        found: dict[Parts, list[Parts]] = {}
        for parts, place in self._places():
            real = folded_parts(real_path(place))
            if real != folded_parts(place):
                found.setdefault(real, []).append(parts)
        return found

    @property
    def hosts(self) -> Iterator[str]:
        """The paths on this machine whose links decide which files the rules restrict."""
        return (place for _, place in self._places()) if self.rules else iter(())

    def _places(self) -> Iterator[tuple[Parts, str]]:
        """The paths, and where they may lie on this machine if their own links are not followed.

        A path that a rule spells out also means the folders and links that are named in another form.
        """
        listed: dict[str, Names] = {}
        for parts in self._paths:
            if parts not in self._spelled:
                yield parts, self.mounts.host_of(parts)
                continue
            same = tuple(map(folded, parts))
            for prefix, folder in (((), self.mounts.root), *self.mounts.folders.items()):
                if tuple(map(folded, prefix)) == same[: len(prefix)]:
                    at, below = self.mounts.real(folder), parts[len(prefix) :]
                    yield from ((parts, place) for place in self._like_names.below(at, below, listed))

    @cached_property
    def _like_names(self) -> LikeNames:
        return LikeNames()

    @cached_property
    def _spelled(self) -> Mapping[Parts, None]:
        return dict.fromkeys(parts for rule in self.rules for parts in _spelled_out(rule))

    @cached_property
    def _paths(self) -> Sequence[Parts]:
        """The virtual paths that may lead through links: what rules spell out, and links that a rule may match."""
        roots = self.mounts.reals()
        spelled = self._spelled
        skipped = frozenset((".git", *map(folded, self.skipped)))
        links = {
            str(link): folded_parts(str(link))
            for base in roots
            for link in links_in(Path(base), skipped=skipped)
        }
        waiting = deque((parts, frozenset[str]()) for parts in spelled)
        waiting += ((name.parts, frozenset({link})) for link in links for name in self.mounts.names_of(link))
        kept: dict[Parts, None] = {}
        most, followed = len(waiting) + _MOST_THROUGH_LINKS, 0
        while waiting and len(kept) < most:
            parts, through = waiting.popleft()
            if parts in kept or not (parts in spelled or self._may_match(parts)):
                continue
            target = real_path(self.mounts.host_of(parts))
            if parts not in spelled and any(Path(root).is_relative_to(target) for root in roots):
                continue  # a rule for a link among others must not close the whole workspace
            kept[parts] = None
            above = folded_parts(target)
            inside = [link for link, at in links.items() if link not in through and at[: len(above)] == above]
            if inside and followed < _MOST_THROUGH_LINKS:
                followed += 1
                # A link in a folder that a link leads to has a name through both.
                waiting += (((*parts, *parts_of(link)[len(above) :]), through | {link}) for link in inside)
        return list(kept)

    def _may_match(self, parts: Parts) -> bool:
        return any(rule.may_fit_below(parts) for rule in self.rules)


Resolved = TypeVar("Resolved")


def once_in_call(owner: object, resolved: Callable[[], Resolved]) -> Resolved:
    """What ``resolved`` returned first for ``owner`` in the running tool call; outside of one, what it returns now."""
    known = RESOLVED.get()
    if known is None:
        return resolved()
    if id(owner) not in known:
        # `owner` is kept too: while it lives, no other object gets its id.
        known[id(owner)] = owner, resolved()
    found: Resolved = known[id(owner)][1]
    return found


def folded_parts(path: str) -> Parts:
    """The parts of a real path in the form of the keys of ``LinkedNames.targets``."""
    return tuple(map(folded, parts_of(path)))


def links_in(folder: Path, *, skipped: frozenset[str] = frozenset()) -> Iterator[Path]:
    """The links in a folder, upper levels first; links are not followed.

    Args:
        skipped: folded names of folders that are not entered.
    """
    left, level = _MOST_ENTRIES, [str(folder)]
    for _ in range(_MOST_LEVELS):
        below: list[str] = []
        for each in level:
            entries = _entries(each, left)
            left -= len(entries)
            yield from (Path(entry.path) for entry in entries if entry.is_symlink())
            below += [
                entry.path
                for entry in entries
                if entry.is_dir(follow_symlinks=False) and folded(entry.name) not in skipped
            ]
        level = below


def links_from(folder: Path, follows: Callable[[Path], bool]) -> Iterator[Path]:
    """The links in a folder, and those in each folder that they lead to.

    Args:
        follows: whether the links in the folder that a link leads to are wanted too.
    """
    seen: set[str] = set()
    waiting = [folder]
    while waiting and len(seen) < _MOST_LINKED_FOLDERS:
        at = real_path(waiting.pop(0))
        if at in seen:
            continue
        seen.add(at)
        for link in links_in(Path(at)):
            yield link
            if follows(link):
                waiting.append(link)


def _entries(folder: str, most: int) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(islice(found, most))
    except OSError:
        return []  # missing, not a folder, or closed to the user: Zeus cannot read it either


def _spelled_out(rule: AccessRule) -> Iterator[Parts]:
    """The path without wildcards at the beginning of a rule's pattern, if there is one."""
    parts = plain_beginning(rule.pattern) if rule.is_rooted else ()
    with suppress(WorkspaceError):  # a text that no path can be
        if parts:
            yield split("/".join(parts))
