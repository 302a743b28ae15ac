"""Offers skills to the model: names and descriptions in section 8, instructions on request, which are then pinned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zeus_runtime.plugin.context import Pin, Refusal, arrivals, tool_groups
from zeus_runtime.plugin.middleware import Middleware, Section
from zeus_runtime.plugin.skills import has_skills, skill_roots

if TYPE_CHECKING:
    from zeus_plugins.middlewares.skills.options import Options
    from zeus_runtime.plugin import PlanContext, RunContext
    from zeus_runtime.plugin.context import Budget, Edit, Item, View
    from zeus_runtime.plugin.files import WorkspaceFiles
    from zeus_runtime.plugin.middleware import CallModel, Turn
    from zeus_runtime.plugin.model import ModelRequest, ModelResponse
    from zeus_runtime.plugin.skills import Skill, Skills
    from zeus_runtime.plugin.tool import Tool

_LOADER: Final = "tool:load_skill"
_LOADED: Final = "<skill name="
_FEW: Final = 50
"""Skills whose files are looked at in a millisecond, if they were read before; a thread begins in a tenth of that."""


class SkillLibrary(Middleware):
    """Looks for skills before each step and reads only changed files. Without skills it adds nothing.

    Args:
        options: whether to trust the project, and how much to show.
        context: the folders and the counter.
    """

    proposes = (Pin,)
    judges = False

    def __init__(self, options: Options, context: RunContext) -> None:
        self._options = options
        self._context = context
        self._roots = skill_roots(
            directory=context.directory, workspace=context.workspace.root, homes=context.homes
        )
        self._known: dict[Path, tuple[object, Skill]] | None = None
        self._listed: tuple[Sequence[Skill], str] = ((), "")
        self._view: View | None = None
        self._seen = 0
        self._pinned_tokens: int | None = None

    @classmethod
    def tools(cls, options: Options, context: PlanContext) -> Sequence[Tool]:
        roots = skill_roots(
            directory=context.directory, workspace=context.workspace.root, homes=context.homes
        )
        hides = partial(_hides, context.workspace)
        if not has_skills(roots, trust_project=options.trust_project, hides=hides):
            return ()
        from zeus_plugins.middlewares.skills.tools import skill_tools

        return skill_tools(
            lambda run: run.middleware(cls), page_tokens=options.page_tokens, files=context.workspace
        )

    async def sections(self, turn: Turn) -> Mapping[Section, str]:
        if self._known is None or len(self._known) > _FEW:
            import asyncio

            text = await asyncio.to_thread(self._listing)
        else:
            text = self._listing()
        return {Section.SKILLS: text} if text else {}

    def _listing(self) -> str:
        """The section's text; empty without skills."""
        offered = self.find().offered
        # Counted and written anew only then: the section is a part of the cached prefix.
        if offered != self._listed[0]:
            from zeus_runtime.plugin.skills import skill_listing

            text = skill_listing(offered, max_tokens=self._options.max_tokens, count=self.count)
            self._listed = (offered, text)
        return self._listed[1]

    async def edits(self, view: View, budget: Budget) -> Sequence[Edit | Refusal]:
        new = [group for group in tool_groups(arrivals(view, self._seen)) if any(map(_loaded, group))]
        self._seen = max(self._seen, view.upto)
        if not new:
            return ()
        # After a resume the pins of earlier runs count too.
        if self._pinned_tokens is None:
            self._pinned_tokens = sum(
                item.tokens for seq in view.pinned if _loaded(item := view.item_of(seq))
            )
        return [each for group in new for each in self._pin(view, group)]

    async def wrap_model_call(self, request: ModelRequest, call_next: CallModel) -> ModelResponse:
        from zeus_runtime.plugin.context import View

        # A middleware above may have replaced the view by a list.
        if isinstance(request.messages, View):
            self._view = request.messages
        return await call_next(request)

    def _pin(self, view: View, group: Sequence[Item]) -> Iterator[Pin | Refusal]:
        first = next(item for item in group if _loaded(item))
        if first.seq in view.pinned:
            return
        pin = Pin(policy="skills", reason="a loaded skill", seq=first.seq)
        tokens = sum(item.tokens for item in group)
        limit, taken = self._options.max_pinned_tokens, self._pinned_tokens or 0
        if taken + tokens > limit:
            yield Refusal(
                pin,
                f"{tokens:,} tokens of a loaded skill and {taken:,} already pinned ones exceed"
                f" max_pinned_tokens = {limit:,}",
            )
            return
        self._pinned_tokens = taken + tokens
        yield pin

    def find(self) -> Skills:
        """The skills as they are now."""
        from zeus_runtime.plugin.skills import find_skills

        found, self._known = find_skills(
            self._roots,
            trust_project=self._options.trust_project,
            known=self._known or {},
            hides=partial(_hides, self._context.workspace),
        )
        return found

    def count(self, text: str) -> int:
        """The tokens of a text."""
        return self._context.counter.text(text)

    def shows(self, head: str) -> bool:
        """Whether the model still sees a result that begins with this line."""
        if self._view is None:
            return False
        return any(
            _loaded(item) and str(item.message.content).startswith(head) for item in self._view.items()
        )


def _hides(workspace: WorkspaceFiles, file: Path) -> bool:
    return workspace.refusal_of(file, top=file.parent) is not None


def _loaded(item: Item) -> bool:
    return item.source == _LOADER and str(item.message.content).startswith(_LOADED)
