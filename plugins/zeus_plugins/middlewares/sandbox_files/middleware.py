"""Lists the files in the session's sandbox for the model; the text changes only after a compaction."""

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
        int, Doc("Maximum tokens of the section; further files are counted."), Minimum(20)
    ] = 500
    max_files: Annotated[int, Doc("Maximum number of files and folders that are read."), Minimum(1)] = 1_000

    def misfits(self, around: Surroundings) -> Iterator[Misfit]:
        """Report an agent without sandbox tools."""
        yield from around.without_sandbox()


class SandboxFilesSection(Middleware):
    """Lists the files when a run begins and after each compaction, when the cached prefix is broken anyway.

    Args:
        options: how much to show.
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
        """Propose no edits; only note whether messages have left the view since the last listing."""
        self._steady.follow(view)
        return ()

    async def _look(self, session: str) -> Sequence[SandboxFile]:
        found: list[SandboxFile] = []
        for backend in self._context.sandboxes.opened:
            try:
                box = await backend.create(session)
                # One more than the maximum shows that there are further files.
                found += await box.list(max_files=self._options.max_files + 1)
            except (SandboxError, SandboxUnavailableError):
                # The tools report this, with the reason, when they are called.
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
