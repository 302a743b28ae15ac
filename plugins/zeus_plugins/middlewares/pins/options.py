"""Options of the pins policy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

from zeus_runtime.plugin import Doc, Minimum, dataclass

if TYPE_CHECKING:
    from zeus_runtime.plugin import Misfit, Surroundings


@dataclass(frozen=True)
class Options:
    first_user: Annotated[bool, Doc("Pin the first message of the user: the goal.")] = True
    patterns: Annotated[
        tuple[str, ...],
        Doc("Pin messages in which one of these regular expressions is found ('.' pins all of the roles)."),
    ] = ()
    roles: Annotated[
        tuple[Literal["user", "assistant", "tool"], ...],
        Doc("Whose messages the patterns are looked for in; a tool's result stays together with its call."),
    ] = ("user",)
    tools: Annotated[
        tuple[str, ...],
        Doc("Pin every result of these tools, with its call: a loaded skill, rules that were read."),
    ] = ()
    max_tokens: Annotated[
        int,
        Doc(
            "What all pinned messages may take; a message that would exceed it is not pinned, and the run says so."
        ),
        Minimum(1),
    ] = 8_000

    def misfits(self, around: Surroundings) -> Iterator[Misfit]:
        """Patterns that are no regular expressions, tools that are not there, more pins than the window holds."""
        import re

        from zeus_runtime.plugin import Misfit

        for index, pattern in enumerate(self.patterns):
            try:
                re.compile(pattern)
            except re.error as error:
                yield Misfit(("patterns", index), f"{pattern!r} is no regular expression: {error}")
        yield from around.unknown_tools(self.tools, ("tools",))
        yield from around.above_window(self.max_tokens, ("max_tokens",))
