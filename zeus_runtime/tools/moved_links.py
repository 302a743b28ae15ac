"""The files that decide about an agent, also where a link on the way of one leads elsewhere since the planning."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from typing import NamedTuple, TypeAlias

from zeus_runtime.disk_paths import links_passed, real_path
from zeus_runtime.tools.access import Deciding
from zeus_runtime.tools.links import once_in_call


class _Addition(NamedTuple):
    """A call that added a path.

    Args:
        host: the path.
        what: which names below or beside the path are meant; empty for the path itself.
        how: the other arguments.
        add: makes the same call for another path.
    """

    host: str
    what: str
    how: tuple[object, ...]
    add: Callable[[Deciding, str], None]


_Links: TypeAlias = Mapping[str, str | None]


class _FollowedLinks(NamedTuple):
    """A look at the links.

    Args:
        size: of the record then.
        watched: all links that were ever found on the way of a path: one may be missing while a program replaces it.
        links: where those links and the ones behind them led.
        deciding: the files that decided then.
    """

    size: int
    watched: frozenset[str]
    links: _Links
    deciding: Deciding


class FollowedDeciding(Deciding):
    """The files that decide, with the paths as they were spelled, so that the links on their way are followed again.

    A deployment moves a link such as ``current -> releases/42`` while the process runs. Each tool call reads only the
    links, and the paths are resolved again if one of them changed. What the links led to while planning stays
    protected.

    Args:
        later: what is closed after the planning, by ``take``; shared by the plans of one content of a config, with the
            texts that they were searched in.
    """

    def __init__(self, later: FollowedDeciding | None = None) -> None:
        super().__init__()
        self._later = later
        if later is not None:
            self.texts = later.texts
        self._additions: list[_Addition] = []
        self._seen: _FollowedLinks | None = None

    def add(
        self,
        host: str,
        why: str = "it decides about this agent",
        *,
        holds_keys: bool = False,
        is_liftable: bool = True,
    ) -> None:
        def again(to: Deciding, at: str) -> None:
            to.add(at, why, holds_keys=holds_keys, is_liftable=is_liftable)

        super().add(host, why, holds_keys=holds_keys, is_liftable=is_liftable)
        self._additions.append(_Addition(host, "", (why, holds_keys, is_liftable), again))

    def add_names(
        self,
        folder: str,
        pattern: str,
        why: str = "it would decide about this agent",
        *,
        but: Collection[str] = (),
        holds_keys: bool = False,
        is_installed: bool = False,
    ) -> None:
        def again(to: Deciding, at: str) -> None:
            to.add_names(at, pattern, why, but=but, holds_keys=holds_keys, is_installed=is_installed)

        super().add_names(folder, pattern, why, but=but, holds_keys=holds_keys, is_installed=is_installed)
        what = (why, tuple(but), holds_keys, is_installed)
        self._additions.append(_Addition(folder, pattern, what, again))

    def add_beginning(self, file: str, why: str, *, holds_keys: bool = False) -> None:
        def again(to: Deciding, at: str) -> None:
            to.add_beginning(at, why, holds_keys=holds_keys)

        super().add_beginning(file, why, holds_keys=holds_keys)
        # Not only its folder may be behind a link, but the file may be one.
        self._additions.append(_Addition(file, "beginning", (why, holds_keys), again))

    def add_modules(self, folder: str, names: Set[str], why: str) -> None:
        super().add_modules(folder, names, why)
        what = _Addition(
            folder, "modules", (frozenset(names), why), lambda to, at: to.add_modules(at, names, why)
        )
        self._additions.append(what)

    def add_in_each(self, folder: str, below: tuple[str, str], why: str) -> None:
        super().add_in_each(folder, below, why)
        what = f"*/{'/'.join(below)}"
        self._additions.append(_Addition(folder, what, (why,), lambda to, at: to.add_in_each(at, below, why)))

    def add_archive(self, folder: str, name: str) -> None:
        super().add_archive(folder, name)
        self._additions.append(_Addition(folder, f"/{name}", (), lambda to, at: to.add_archive(at, name)))

    def take(self, other: FollowedDeciding) -> None:
        """Close what ``other`` closes, for the plans that have this as their ``later``; it only grows."""
        self.include(other)
        self.texts |= other.texts
        known = {each[:3] for each in self._additions}
        self._additions += [each for each in other._additions if each[:3] not in known]

    @property
    def _size(self) -> int:
        places = (self.unasked, self.unasked_files, self.ways, self.folders, self.shown, self.around)
        own = sum(map(len, (self._additions, *places)))
        return own if self._later is None else own + self._later._size

    def now(self) -> Deciding:
        return once_in_call(self, self._followed)

    def _followed(self) -> Deciding:
        seen = self._seen
        # A sub-agent that is planned later adds its files, and a service those of an edited config.
        if seen is None or seen.size != self._size or seen.links != _read(seen.links):
            # One assignment, because tools run in several threads.
            self._seen = seen = self._look(frozenset() if seen is None else seen.watched)
        return seen.deciding

    def _look(self, watched: frozenset[str]) -> _FollowedLinks:
        size, later = self._size, self._later
        additions = (*self._additions, *(() if later is None else later._additions))
        ways = {each.host: _above(each.host) for each in additions}
        watched |= frozenset(
            filter(os.path.islink, {place for way in ways.values() for place in way} - watched)
        )
        behind = [each for each in additions if not watched.isdisjoint(ways[each.host])]
        # Before the paths are resolved: a link that is moved between is found changed by the next call.
        links = _read({*watched, *links_passed(each.host for each in behind)})
        known = {(each.host, each.what) for each in additions}
        moved = [(at, each) for each in behind for at in _leads_to(each) if (at, each.what) not in known]
        is_same = not moved and (later is None or not later._size)
        return _FollowedLinks(size, watched, links, self if is_same else self._with(additions, moved))

    def _with(self, additions: Sequence[_Addition], moved: Sequence[tuple[str, _Addition]]) -> Deciding:
        found = Deciding()
        found.sources = self.sources
        for each in (self,) if self._later is None else (self, self._later):
            found.include(each)
        for addition in additions:
            addition.add(found, addition.host)
        for at, addition in moved:
            addition.add(found, at)
        return found


def _above(host: str) -> list[str]:
    """A path, and the folders on its way as it is spelled."""
    parts = host.split("/")
    return ["/".join(parts[:length]) for length in range(2, len(parts) + 1)]


def _leads_to(addition: _Addition) -> set[str]:
    """Where a path leads, and where its last name lies, which may be a link."""
    folder, _, name = addition.host.rpartition("/")
    return {real_path(addition.host), f"{real_path(folder or '/').rstrip('/')}/{name}"}


def _read(links: Collection[str]) -> _Links:
    return {each: _target(each) for each in links}


def _target(link: str) -> str | None:
    try:
        return os.readlink(link)  # noqa: PTH115 - each tool call asks
    except OSError:  # not there now, or no link
        return None
