"""Shows the model the git state and a short tree of the workspace; the text changes only after a compaction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from zeus_plugins.middlewares.local_context.options import Options
from zeus_plugins.middlewares.steady_text import SteadyText
from zeus_runtime.plugin import printable
from zeus_runtime.plugin.files import WorkspaceError
from zeus_runtime.plugin.middleware import Middleware, Section

if TYPE_CHECKING:
    from zeus_plugins.middlewares.local_context.git import GitState
    from zeus_runtime.plugin import Redactor, RunContext
    from zeus_runtime.plugin.context import Budget, Edit, View
    from zeus_runtime.plugin.files import WorkspaceFiles
    from zeus_runtime.plugin.middleware import Turn


class LocalContext(Middleware):
    """Reads the workspace when a run begins and after each compaction, when the cached prefix is broken anyway.

    Args:
        options: how much to show.
        context: the workspace and the counter.
    """

    def __init__(self, options: Options, context: RunContext) -> None:
        self._options = options
        self._context = context
        self._steady = SteadyText()

    async def sections(self, turn: Turn) -> Mapping[Section, str]:
        if self._steady.text is None:
            self._steady.text = await self._look()
        return {Section.SANDBOX: self._steady.text}

    async def edits(self, view: View, budget: Budget) -> Sequence[Edit]:
        """Propose no edits; only note whether messages have left the view since the last reading."""
        self._steady.follow(view)
        return ()

    async def _look(self) -> str:
        import asyncio

        from zeus_plugins.middlewares.local_context.git import git_state
        from zeus_plugins.middlewares.local_context.tree import tree

        options, workspace = self._options, self._context.workspace
        git = (
            await git_state(
                workspace.root,
                self._context.own_programs,
                commits=options.commits,
                timeout_seconds=options.timeout_seconds,
            )
            if options.git
            else None
        )
        try:
            async with asyncio.timeout(options.timeout_seconds):
                found = await asyncio.to_thread(
                    tree,
                    workspace,
                    depth=options.depth,
                    entries=options.entries,
                    ignore=options.ignore,
                    timeout_seconds=options.timeout_seconds,
                )
        except TimeoutError:
            # `tree` stops by itself at its time limit; this is for a folder that does not answer, such as a lost
            # network drive.
            found = []
        if git is not None:
            # In a thread: access rules look at each path on the disk, and there may be thousands.
            git = await asyncio.to_thread(_seen, git, workspace, self._context.secrets)
        return self._fitted([*_git_lines(git, options), *_tree_lines(found)])

    def _fitted(self, lines: Sequence[str]) -> str:
        """Return as many lines as fit the limit, with a note if there were more."""
        if not lines:
            return ""
        count = self._context.counter.text
        kept = ["# The workspace"]
        left = self._options.max_tokens - count(kept[0]) - 8
        for line in lines:
            left -= count(line) + 1
            if left < 0:
                kept.append("(cut here)")
                break
            kept.append(line)
        return "\n".join(kept)


def _seen(state: GitState, workspace: WorkspaceFiles, secrets: Redactor) -> GitState:
    """The state without the files that ``workspace.access`` closes to the model; git names them too.

    By the real names, the place among files that the model made would tell a secret in one of them letter by letter.
    """
    changes = [each for each in state.changes if not _hidden(workspace, each[0])]
    return replace(state, changes=tuple(sorted(changes, key=lambda each: secrets.text(each[0]))))


def _hidden(workspace: WorkspaceFiles, path: str) -> bool:
    try:
        return workspace.hides(path)
    except WorkspaceError:
        return True


def _git_lines(state: GitState | None, options: Options) -> Iterator[str]:
    if state is None:
        return
    yield f"Git branch: {printable(state.branch)}"
    if state.commits:
        yield "Last commits:"
        yield from (f"  {printable(line)}" for line in state.commits)
    if not state.changes and state.all_changes:
        yield "No uncommitted changes."
        return
    yield f"Uncommitted files: {len(state.changes)}{'' if state.all_changes else ' or more'}"
    yield from (f"  {what} /{printable(path)}" for path, what in state.changes[: options.changes])
    if 0 < options.changes < len(state.changes):
        yield f"  ... {len(state.changes) - options.changes} more"


def _tree_lines(lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield "Files under /:"
        yield from (f"  {line}" for line in lines)
