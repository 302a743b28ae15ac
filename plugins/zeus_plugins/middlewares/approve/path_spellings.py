"""All spellings of a path in a call, so that a rule on one of them judges the call."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
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

    The path is read as a workspace path. If it lies in one of the workspace's folders on the host, it is also read as a
    host path: there a ``..`` after a link leads to the folder above the link's target. An empty set stands for a
    reading that fails, such as a path that is not in the workspace.
    """
    if "\0" in path:
        return [set()]
    # Not normalised: the host follows a link before a `..` behind it.
    host = _below_root(workspace.root, path)
    on_host = _read(lambda: _on_host(workspace, host))
    # The path as it is written may be one of this machine. Sorted, since it may lie in several folders.
    above = dict(sorted(set().union(*on_host)))

    def named(name: str) -> set[Spelling]:
        parts = parts_of(name)
        count = above.get(parts, 0)
        return {Spelling(parts, 0 if count and _has_folder(workspace, parts[:count]) else count)}

    # A server gets a placeholder as text, and each `/` and `..` in it counts there.
    as_text = os.path.normpath(f"/{path}")
    sent = _read(lambda: [named(as_text)], lambda: [named(workspace.real(as_text))]) if "<" in path else ()
    return [
        *_read(lambda: [named(workspace.normalize(path))], lambda: [named(workspace.real(path))]),
        *on_host,
        *_read(lambda: _by_like_names(workspace, path, host)),
        *sent,
    ]


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
    found = [*leads_to(workspace, path)]
    written = {each.parts: each for each in found[0]}
    for files in dict.fromkeys((workspace, callers)):
        with suppress(WorkspaceError):  # the agent's tools cannot open it; a server may, at the place below
            names = _named(workspace, str(files.place(path)))
            # The path as it is written may be one of this machine.
            found += [{written.get(each.parts, each) for each in spellings} for spellings in names]
        for root in filter(None, (files.root, files.project)):
            host = os.path.expanduser(_below_root(root, path))  # noqa: PTH111 - pathlib raises if there is no home
            if len(real := _real(host)) <= LONGEST:
                found += _read(partial(_named, workspace, real))
    return found


def _named(workspace: WorkspaceFiles, host: str) -> list[set[Spelling]]:
    names = {Spelling(parts_of(each)) for each in workspace.paths_of(Path(host))}
    return [names] if names else []


def _below_root(root: Path, path: str) -> str:
    """Return a path as a server takes it that resolves relative paths from the workspace."""
    return path if path.startswith(("/", "~")) else f"{root}/{path}"


def _on_host(workspace: WorkspaceFiles, path: str) -> Iterator[set[Spelling]]:
    """Yield the spellings of a host path, as MCP servers take it, if it lies below the workspace's root or a route.

    The first set is for the path as written, the second for the path with links followed. Each holds the host path and,
    unless links lead outside, the workspace path.
    """
    given = os.path.expanduser(path)  # noqa: PTH111 - pathlib raises if there is no home
    if not given.startswith("/"):
        return
    # `normpath` keeps two leading slashes, and then no folder would contain the path.
    written = os.path.normpath("/" + given.lstrip("/"))
    folders = {"/": workspace.root} | dict(workspace.routes)
    # Each with its like: the folder itself may be reached through a link.
    read = ((written, os.path.normpath), (_real(given), os.path.realpath))
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


def _by_like_names(workspace: WorkspaceFiles, path: str, host: str) -> Iterator[set[Spelling]]:
    """Yield the spellings of the files that a server finds that takes an entry with a like name for a missing one.

    `allow` must fit them as well, and `deny` fits one of them.

    Raises:
        WorkspaceError: there are too many, or nobody can tell which file a name means that its folder does not list.
    """
    given = os.path.expanduser(host)  # noqa: PTH111 - pathlib raises if there is no home
    starts = {given, f"{workspace.root}/{path.lstrip('/')}"}
    for prefix, folder in dict(workspace.routes).items():
        if f"/{path.lstrip('/')}".startswith(prefix):
            starts.add(f"{folder}/{path.lstrip('/')[len(prefix) - 1 :]}")
    starts = {"/" + each.lstrip("/") for each in starts if each.startswith("/")}
    # A server may resolve a `..` before it looks for the entries.
    for start in sorted(starts | set(map(os.path.normpath, starts))):
        if len(start) <= LONGEST and passes_unlisted(start):
            raise WorkspaceError("The path has a second name of a file.")
        for real in like(start):
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
