"""Tells the model which files are in its session's sandbox, the same bytes between compactions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from zeus_plugins.middlewares.steady_text import SteadyText
from zeus_runtime.plugin import Doc, Minimum, printable
from zeus_runtime.plugin.middleware import Middleware, Section
from zeus_runtime.plugin.sandbox import SandboxError, SandboxUnavailableError

if TYPE_CHECKING:
    from zeus_runtime.plugin import Misfit, RunContext, Surroundings
    from zeus_runtime.plugin.context import Budget, Edit, View
    from zeus_runtime.plugin.middleware import Turn
    from zeus_runtime.plugin.sandbox import SandboxFile


@dataclass(frozen=True)
class Options:
    max_tokens: Annotated[
        int, Doc("The whole section, in tokens; the rest of the files is counted."), Minimum(20)
    ] = 500
    max_files: Annotated[int, Doc("Files and folders that are looked at."), Minimum(1)] = 1_000

    def misfits(self, around: Surroundings) -> Iterator[Misfit]:
        """No tools that have a sandbox."""
        yield from around.without_sandbox()


class SandboxFilesSection(Middleware):
    """Looks when a run begins and after each compaction, when the cached prefix is broken anyway.

    Args:
        options: how much is said.
        context: the sandboxes and the counter.
    """

    def __init__(self, options: Options, context: RunContext) -> None:
        self._options = options
        self._context = context
        self._steady = SteadyText()

    async def sections(self, turn: Turn) -> Mapping[Section, str]:
        if turn.mode != "agent":
            return {}
        if self._steady.text is None:
            self._steady.text = self._fitted(await self._look(turn.session))
        return {Section.SANDBOX: self._steady.text}

    async def edits(self, view: View, budget: Budget) -> Sequence[Edit]:
        """Proposes nothing: it sees whether messages left since it looked."""
        self._steady.follow(view)
        return ()

    async def _look(self, session: str) -> Sequence[SandboxFile]:
        found: list[SandboxFile] = []
        for backend in self._context.sandboxes.opened:
            try:
                box = await backend.create(session)
                # One more than is looked at tells that there are more.
                found += await box.list(max_files=self._options.max_files + 1)
            except (SandboxError, SandboxUnavailableError):
                # The tools will say it, with the reason, when they are called.
                continue
        return found

    def _fitted(self, files: Sequence[SandboxFile]) -> str:
        if not files:
            return ""
        count = self._context.counter.text
        kept = ["# Files in the sandbox"]
        left = self._options.max_tokens - count(kept[0]) - 8
        most = self._options.max_files
        for shown, each in enumerate(_lines(files)):
            left -= count(each) + 1
            if left < 0 or shown == most:
                kept.append("... and more" if len(files) > most else f"... and {len(files) - shown} more")
                break
            kept.append(each)
        return "\n".join(kept)


def _lines(files: Sequence[SandboxFile]) -> Iterator[str]:
    for each in files:
        size = "" if each.size_bytes is None else f" ({each.size_bytes:,} bytes)"
        yield f"{printable(each.path)}{'/' if each.kind == 'directory' else size}"
