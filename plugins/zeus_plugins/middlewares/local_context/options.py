"""Options of the local_context middleware."""

from __future__ import annotations

from typing import Annotated

from zeus_runtime.plugin import Doc, Minimum, dataclass


@dataclass(frozen=True)
class Options:
    max_tokens: Annotated[
        int, Doc("Maximum tokens of the section; the last lines of the tree are dropped first."), Minimum(20)
    ] = 600
    depth: Annotated[int, Doc("Levels of folders in the tree; 0: no tree."), Minimum(0)] = 2
    entries: Annotated[int, Doc("Entries listed per folder; the rest are counted."), Minimum(1)] = 20
    ignore: Annotated[tuple[str, ...], Doc("Names that the tree leaves out, as glob patterns.")] = (
        ".*",
        "__pycache__",
        "node_modules",
        "venv",
        "conversation_history",
        "large_tool_results",
    )
    git: Annotated[bool, Doc("Show branch, last commits and uncommitted files if there is a repository.")] = (
        True
    )
    commits: Annotated[int, Doc("Last commits listed."), Minimum(0)] = 3
    changes: Annotated[int, Doc("Uncommitted files listed; the rest are counted."), Minimum(0)] = 10
    timeout_seconds: Annotated[
        float,
        Doc("Timeout for git, and for the tree; parts that are not ready by then are left out."),
        Minimum(0),
    ] = 2.0
