"""Options of the resources middleware."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from zeus_runtime.plugin import Doc, Minimum, dataclass

if TYPE_CHECKING:
    from zeus_runtime.plugin import Misfit, Surroundings


@dataclass(frozen=True)
class Options:
    max_tokens: Annotated[
        int,
        Doc("Maximum tokens of all files named with @ (section 13); the newest get room first."),
        Minimum(100),
    ] = 16_000
    max_attachment_tokens: Annotated[
        int,
        Doc("Maximum tokens of all attached files (section 15); the newest get room first."),
        Minimum(100),
    ] = 16_000
    max_file_tokens: Annotated[
        int, Doc("Maximum tokens of one file; a path to read the rest is shown."), Minimum(50)
    ] = 8_000

    def misfits(self, around: Surroundings) -> Iterator[Misfit]:
        """Report limits that exceed the window."""
        for name in ("max_tokens", "max_attachment_tokens", "max_file_tokens"):
            yield from around.above_window(getattr(self, name), (name,))
