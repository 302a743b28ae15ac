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
        Doc("Pin messages that match one of these regular expressions ('.' pins all messages of the roles)."),
    ] = ()
    roles: Annotated[
        tuple[Literal["user", "assistant", "tool"], ...],
        Doc(
            "The roles whose messages are searched for the patterns; a tool's result is pinned with its call."
        ),
    ] = ("user",)
    tools: Annotated[
        tuple[str, ...],
        Doc("Pin every result of these tools, with its call: a loaded skill, rules that were read."),
    ] = ()
    max_tokens: Annotated[
        int,
        Doc(
            "Maximum tokens of all pinned messages; a message that would exceed it is not pinned, and the run says so."
        ),
        Minimum(1),
    ] = 8_000

    def misfits(self, around: Surroundings) -> Iterator[Misfit]:
        """Report invalid regular expressions, unknown tools, and a limit of pins that exceeds the window."""
        import re

        from zeus_runtime.plugin import Misfit

        for index, pattern in enumerate(self.patterns):
            try:
                re.compile(pattern)
            except re.error as error:
                yield Misfit(("patterns", index), f"{pattern!r} is not a regular expression: {error}")
        yield from around.unknown_tools(self.tools, ("tools",))
        yield from around.above_window(self.max_tokens, ("max_tokens",))
