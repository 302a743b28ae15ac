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
        int, Doc("Of all files named with @ together (section 13); the newest come first."), Minimum(100)
    ] = 16_000
    max_attachment_tokens: Annotated[
        int, Doc("Of all attached files together (section 15); the newest come first."), Minimum(100)
    ] = 16_000
    max_file_tokens: Annotated[
        int, Doc("Of one file; the rest is named with the path to read it under."), Minimum(50)
    ] = 8_000

    def misfits(self, around: Surroundings) -> Iterator[Misfit]:
        """More than the window holds."""
        for name in ("max_tokens", "max_attachment_tokens", "max_file_tokens"):
            yield from around.above_window(getattr(self, name), (name,))
