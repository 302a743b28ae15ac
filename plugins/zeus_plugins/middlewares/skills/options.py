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
            "Also offer the project's skills (.agents/skills, .zeus/skills, .claude/skills). They are instructions"
            " that the model follows: set true only for projects whose authors you trust."
        ),
    ] = False
    max_tokens: Annotated[
        int,
        Doc(
            "Maximum tokens of section 8. If exceeded, the last skills' descriptions are left out, then their names,"
            " which are counted."
        ),
        Minimum(200),
    ] = 4_000
    page_tokens: Annotated[
        int,
        Doc("Maximum tokens of a skill's instructions or of one of its files per page."),
        Minimum(500),
    ] = 10_000
    max_pinned_tokens: Annotated[
        int,
        Doc(
            "Maximum tokens of loaded skills that stay in the window for ever. A skill that would exceed it can be "
            "summarized like any other message, and the run says so; 0: none stay."
        ),
        Minimum(0),
    ] = 30_000

    def misfits(self, around: Surroundings) -> Iterator[Misfit]:
        """Report limits that exceed the window."""
        for name in ("max_tokens", "page_tokens", "max_pinned_tokens"):
            yield from around.above_window(getattr(self, name), (name,))
