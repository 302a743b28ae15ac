"""All spellings of a path in a call, so that a rule on one of them judges the call."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from zeus_runtime.plugin.files import WorkspaceError, parts_below

if TYPE_CHECKING:
    from zeus_runtime.plugin.files import WorkspaceFiles


def leads_to(workspace: WorkspaceFiles, path: str) -> list[set[str]]:
    """Return the normalised path and the path with links followed, each as a set of its spellings.

    The path is read as a workspace path. If it lies in one of the workspace's folders on the host, it is also read as a
    host path: there a ``..`` after a link leads to the folder above the link's target.

    Raises:
        WorkspaceError: the path is not in the workspace.
    """
    # Not normalised: the host follows a link before a `..` behind it.
    host = _host_of(workspace, path)
    return [{workspace.normalize(path)}, {workspace.real(path)}, *_on_host(workspace, host)]


def reaches(workspace: WorkspaceFiles, callers: WorkspaceFiles, path: str) -> list[set[str]]:
    """Return what ``leads_to`` returns, and all names that the file has in ``workspace``, also those through links.

    Args:
        callers: the workspace of the agent that calls, which may be a sub-agent's.

    Raises:
        WorkspaceError: the path is not in the workspace.
    """
    found = [*leads_to(workspace, path)]
    for files in dict.fromkeys((workspace, callers)):
        with suppress(WorkspaceError):  # the agent's tools cannot open it; a server may, at the place below
            found.append(set(workspace.paths_of(files.place(path))))
        host = os.path.expanduser(_host_of(files, path))  # noqa: PTH111 - pathlib raises if there is no home
        found.append(set(workspace.paths_of(Path(host))))
    return found


def _host_of(workspace: WorkspaceFiles, path: str) -> str:
    """Return a path as a server takes it that resolves relative paths from the workspace."""
    return path if path.startswith(("/", "~")) else f"{workspace.root}/{path}"


def _on_host(workspace: WorkspaceFiles, path: str) -> Iterator[set[str]]:
    """Yield the spellings of a host path, as MCP servers take it, if it lies below the workspace's root or a route.

    The first set is for the path as written, the second for the path with links followed. Each holds the host path and,
    unless links lead outside, the workspace path.
    """
    given = os.path.expanduser(path)  # noqa: PTH111 - pathlib raises if there is no home
    if not given.startswith("/"):
        return
    # `normpath` keeps two leading slashes, and then no folder would contain the path.
    written = os.path.normpath("/" + given.lstrip("/"))
    try:
        real = os.path.realpath(given)
    except (
        OSError
    ) as error:  # before Python 3.13, for a link that this user may not read, such as /proc/1/cwd
        real = str(error.filename)
    spellings: tuple[set[str], set[str]] = ({written}, {real})
    is_inside = False
    for prefix, host in ({"/": workspace.root} | dict(workspace.routes)).items():
        folder = os.path.normpath(host)
        # Each with its like: the folder itself may be reached through a link.
        places = (_below(folder, written), _below(os.path.realpath(host), real))
        for names, place in zip(spellings, places, strict=True):
            if place is not None:
                is_inside = True
                names |= {f"{folder}/{place}", f"{prefix}{place}"}
    if is_inside:
        yield from spellings


def _below(folder: str, path: str) -> str | None:
    """Return a host path relative to a folder; None if it is not inside the folder."""
    place = parts_below(folder, path)
    return "/".join(place) if place else None
