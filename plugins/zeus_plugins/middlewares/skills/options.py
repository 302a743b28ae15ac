"""Options of the skills middleware."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from zeus_runtime.plugin import Doc, Minimum, dataclass

if TYPE_CHECKING:
    from zeus_runtime.plugin import Misfit, Surroundings


@dataclass(frozen=True)
class Options:
    trust_project: Annotated[
        bool,
        Doc(
            "Offer the skills that the project brings (.agents/skills, .zeus/skills, .claude/skills) too. They are "
            "instructions that the model follows: say true for projects whose authors you trust."
        ),
    ] = False
    max_tokens: Annotated[
        int,
        Doc(
            "Of section 8. Beyond it, the last skills' descriptions go first, then their names, which are counted."
        ),
        Minimum(200),
    ] = 4_000
    page_tokens: Annotated[
        int,
        Doc("Of a skill's instructions or of one of its files; a longer text comes by pages."),
        Minimum(500),
    ] = 10_000
    max_pinned_tokens: Annotated[
        int,
        Doc(
            "What loaded skills may keep of the window for ever. One that would exceed it can be summarized like any "
            "other message, and the run says so; 0 keeps none."
        ),
        Minimum(0),
    ] = 30_000

    def misfits(self, around: Surroundings) -> Iterator[Misfit]:
        """More than the window holds."""
        for name in ("max_tokens", "page_tokens", "max_pinned_tokens"):
            yield from around.above_window(getattr(self, name), (name,))
