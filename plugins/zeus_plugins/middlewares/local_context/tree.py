"""Makes a short tree of the workspace, breadth first and within limits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from time import monotonic
from typing import TYPE_CHECKING

from zeus_runtime.plugin import printable
from zeus_runtime.plugin.files import WorkspaceError

if TYPE_CHECKING:
    from zeus_runtime.plugin.files import WorkspaceFiles

_INDENT = "  "


def tree(
    workspace: WorkspaceFiles,
    *,
    depth: int,
    entries: int,
    ignore: Sequence[str],
    timeout_seconds: float,
    max_lines: int = 1000,
) -> list[str]:
    """Return the lines of the tree, folders before files, each level indented; omitted entries are counted.

    Args:
        depth: levels of folders.
        entries: the maximum number of entries listed per folder.
        ignore: glob patterns of names that are left out.
        timeout_seconds: folders that are not read by then are shown without their contents.
        max_lines: the maximum number of lines.
    """
    end = monotonic() + timeout_seconds
    lines: list[str] = []
    for line in _folder(workspace, "/", depth, entries, ignore, end, ""):
        lines.append(line)
        if len(lines) >= max_lines:
            lines.append("...")
            break
    return lines


def _folder(
    workspace: WorkspaceFiles,
    path: str,
    depth: int,
    limit: int,
    ignore: Sequence[str],
    end: float,
    indent: str,
) -> Iterator[str]:
    # The thread that reads cannot be cancelled, so it looks at the clock itself.
    if depth == 0 or monotonic() >= end:
        return
    try:
        found = workspace.entries(path)
    except WorkspaceError:
        return
    shown = [each for each in found if not any(fnmatchcase(each.name, pattern) for pattern in ignore)]
    # The order within a kind stays: it is that of the names as they are shown.
    shown.sort(key=lambda each: each.kind != "directory")
    for each in shown[:limit]:
        yield f"{indent}{printable(each.name)}{'/' if each.kind == 'directory' else ''}"
        if each.kind == "directory":
            yield from _folder(workspace, each.path, depth - 1, limit, ignore, end, indent + _INDENT)
    if len(shown) > limit:
        yield f"{indent}... {len(shown) - limit} more"
