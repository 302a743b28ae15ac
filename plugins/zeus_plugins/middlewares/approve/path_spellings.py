"""All spellings of a path in a call, so that a rule on one of them judges the call."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zeus_plugins.middlewares.approve.readings import LONGEST
from zeus_plugins.middlewares.approve.rules import Spelling, is_path
from zeus_runtime.plugin.files import WorkspaceError, folded, parts_below, parts_of, passes_unlisted

if TYPE_CHECKING:
    from zeus_runtime.plugin.files import WorkspaceFiles
    from zeus_runtime.plugin.tool import Tool


def leads_to(workspace: WorkspaceFiles, path: str) -> list[set[Spelling]]:
    """Return the normalised path and the path with links followed, each as a set of its spellings.

    The path is read as a workspace path, and as each path of this machine that a server may take it for, if that lies
    in one of the workspace's folders: there a ``..`` after a link leads to the folder above the link's target. An empty
    set stands for a reading that fails, such as a path that is not in the workspace.
    """
    if "\0" in path:
        return [set()]
    places = _places(path, [workspace.root], workspace.routes)
    found = _read(
        lambda: [{Spelling(parts_of(workspace.normalize(path)))}],
        lambda: [{Spelling(parts_of(workspace.real(path)))}],
        lambda: chain.from_iterable(_on_host(workspace, each) for each in places),
        lambda: _by_like_names(workspace, places),
    )
    counted = _counting(workspace, found)
    return [set(map(counted, spellings)) for spellings in found]


def _counting(
    workspace: WorkspaceFiles, found: Iterable[Collection[Spelling]]
) -> Callable[[Spelling], Spelling]:
    """Return what corrects ``above`` of a spelling: what looks like a path of the workspace may be one of this machine.

    The names above the workspace do not count then, unless the workspace itself has such a folder.
    """
    # Sorted, since it may lie in several folders.
    known = dict(sorted(chain.from_iterable(found)))

    def counted(each: Spelling) -> Spelling:
        own = each.parts[each.above :]
        count = known.get(own, 0)
        is_machines = count and not _has_folder(workspace, own[:count])
        return Spelling(each.parts, each.above + count) if is_machines else each

    return counted


def _places(path: str, roots: Iterable[Path], routes: Mapping[str, Path]) -> list[str]:
    """Return the paths of this machine that a path may mean: itself, and what it names in a root or a route's folder.

    Each is as it is written, where the system follows a link before a `..` behind it, and normalised, as many servers
    do first. Each `/` and `..` within a placeholder counts, since a server gets it as text. `~` is the home folder only
    for some servers.
    """
    written = "/" + "/".join(parts_of(path))
    folders = [*(("/", root) for root in roots), *routes.items()]
    found = {
        f"{folder}/{written[len(prefix) :]}" for prefix, folder in folders if f"{written}/".startswith(prefix)
    }
    given = os.path.expanduser(path)  # noqa: PTH111 - pathlib raises if there is no home
    if given.startswith("/"):
        # `normpath` keeps two leading slashes, and then no folder would contain the path.
        found.add("/" + given.lstrip("/"))
    return sorted(found | set(map(os.path.normpath, found)))


def _has_folder(workspace: WorkspaceFiles, names: Sequence[str]) -> bool:
    """Whether the workspace itself has a folder with the path that one has on this machine."""
    try:
        return os.path.exists(workspace.place("/".join(names)))  # noqa: PTH110 - pathlib raises for a long path
    except WorkspaceError:  # a link leads out
        return True


def with_targets(reason: str, workspace: WorkspaceFiles, tool: Tool, arguments: Mapping[str, object]) -> str:
    """Return the reason for a question, and where the links in the call's paths lead.

    Only for tools whose paths mean the workspace; a diff names the file behind a link anyway.
    """
    found = [reason]
    means_workspace = tool.category in ("filesystem", "shell") and tool.preview is None
    for name, path in arguments.items() if means_workspace else ():
        if is_path(name) and isinstance(path, str):
            with suppress(WorkspaceError, ValueError):  # the tool refuses it
                if (real := workspace.real(path)) != workspace.normalize(path):
                    found.append(f"{name} leads to {json.dumps(real, ensure_ascii=False)}")
    return "; ".join(found)


def _read(*readings: Callable[[], Iterable[set[Spelling]]]) -> list[set[Spelling]]:
    """Return what all readings find; one that fails adds an empty set, and takes nothing from the others."""
    found: list[set[Spelling]] = []
    for reading in readings:
        try:
            found += reading()
        except (WorkspaceError, ValueError):  # ValueError: no name of a file has such a character
            found.append(set())
    return found


def reaches(workspace: WorkspaceFiles, callers: WorkspaceFiles, path: str) -> list[set[Spelling]]:
    """Return what ``leads_to`` returns, and all names that the file has in ``workspace``, also those through links.

    Args:
        callers: the workspace of the agent that calls, which may be a sub-agent's.
    """
    found = leads_to(workspace, path)
    counted = _counting(workspace, found)
    places = dict[str, None]()
    for files in (workspace, callers):
        with suppress(WorkspaceError):  # the agent's tools cannot open it; a server may, at the other places
            places[str(files.place(path))] = None
        roots = filter(None, (files.root, files.project))
        places |= dict.fromkeys(_places(path, roots, files.routes))
    for real in dict.fromkeys(map(_real, places)):
        if len(real) <= LONGEST:
            names = _read(partial(_named, workspace, real))
            found += [set(map(counted, spellings)) for spellings in names]
    return found


def _named(workspace: WorkspaceFiles, host: str) -> list[set[Spelling]]:
    names = {Spelling(parts_of(each)) for each in workspace.paths_of(Path(host))}
    return [names] if names else []


def _on_host(workspace: WorkspaceFiles, path: str) -> Iterator[set[Spelling]]:
    """Yield the spellings of an absolute path of this machine if it lies below the workspace's root or a route.

    The first set is for the path as written, the second for the path with links followed. Each holds the host path and,
    unless links lead outside, the workspace path.
    """
    folders = {"/": workspace.root} | dict(workspace.routes)
    # Each with its like: the folder itself may be reached through a link.
    read = ((os.path.normpath(path), os.path.normpath), (_real(path), os.path.realpath))
    found = [(each, _in_folders(folders, each, at)) for each, at in read]
    if any(spellings for _, spellings in found):
        yield from (spellings or {Spelling(parts_of(each))} for each, spellings in found)


def _in_folders(folders: Mapping[str, Path], path: str, at: Callable[[Path], str]) -> set[Spelling]:
    """Return the spellings of a host path through each of the folders that it lies in."""
    parts = parts_of(path)
    found = set[Spelling]()
    for prefix, host in folders.items():
        if (place := parts_below(at(host), path)) is not None:
            folder = parts_of(os.path.normpath(host))
            found |= {
                Spelling(parts, len(parts) - len(place)),
                Spelling((*folder, *place), len(folder)),
                Spelling((*parts_of(prefix), *place)),
            }
    return found


def _real(path: str) -> str:
    """Return an absolute path with links followed. Nothing is looked up below a missing folder: a text may be long."""
    at, missing = "/", list[str]()
    for part in path.split("/"):
        if part in ("", "."):
            continue
        if part == "..":
            at = at if missing else os.path.dirname(at)  # noqa: PTH120 - a text, as links are followed already
            del missing[-1:]
        elif missing or not os.path.lexists(f"{at}/{part}"):
            missing.append(part)
        else:
            try:
                at = os.path.realpath(f"{at}/{part}")
            except OSError as error:
                # Before Python 3.13, for a link that this user may not read, such as /proc/1/cwd.
                return str(error.filename)
    return "/".join((at.rstrip("/"), *missing)) or "/"


def _by_like_names(workspace: WorkspaceFiles, places: Iterable[str]) -> Iterator[set[Spelling]]:
    """Yield the spellings of the files that a server finds that takes an entry with a like name for a missing one.

    `allow` must fit them as well, and `deny` fits one of them.

    Raises:
        WorkspaceError: there are too many, or nobody can tell which file a name means that its folder does not list.
    """
    for place in places:
        if len(place) <= LONGEST and passes_unlisted(place):
            raise WorkspaceError("The path has a second name of a file.")
        for real in like(place):
            yield set().union(*_on_host(workspace, real)) or {Spelling(parts_of(real))}


def like(path: str) -> list[str]:
    """Return the real paths that an absolute path means if an entry with a like name stands for each missing part.

    A folder is listed only where a part is missing. If no part is missing, or nothing is like it, there are none.

    Raises:
        WorkspaceError: there are too many.
    """
    if os.path.exists(path):  # noqa: PTH110 - one look for most paths
        return []
    found: dict[str, None] = {}
    waiting: list[tuple[str, list[str], bool]] = [("/", path.split("/")[::-1], False)]
    steps = 0
    while waiting:
        at, rest, is_like = waiting.pop()
        while rest:
            part = rest.pop()
            if part in ("", "."):
                continue
            steps += 1
            if steps > _MOST_STEPS:
                raise WorkspaceError("The path has too many meanings.")
            if part == "..":
                at = os.path.dirname(at)  # noqa: PTH120 - texts, as links are followed already
                continue
            here = f"{at.rstrip('/')}/{part}"
            try:
                target = os.readlink(here)  # noqa: PTH115
            except FileNotFoundError:
                waiting += [(at, [*rest, name], True) for name in _entries_like(at, part)]
                at = here
            except (OSError, ValueError):  # no link, or nobody can tell
                at = here
            else:
                at = "/" if target.startswith("/") else at
                rest += target.split("/")[::-1]
        if is_like:
            found[at] = None
    return list(found)


_MOST_STEPS: Final = 2_000


def _entries_like(folder: str, part: str) -> list[str]:
    try:
        return [name for name in os.listdir(folder) if folded(name) == folded(part)]  # noqa: PTH208
    except (OSError, ValueError):
        return []
