"""Options of the dedupe policy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from zeus_runtime.plugin import Doc, Maximum, Minimum, dataclass
from zeus_runtime.plugin.context import Size

if TYPE_CHECKING:
    from zeus_runtime.plugin import Misfit, Surroundings


@dataclass(frozen=True)
class Options:
    min_tokens: Annotated[
        int, Doc("An older copy with fewer tokens stays: a pointer would hardly be shorter."), Minimum(1)
    ] = 200
    horizon_calls: Annotated[
        int,
        Doc(
            "For how many further model calls the saving counts, when it is weighed against sending the rest of the"
            " conversation past the provider's cache once; 0: only the trigger counts."
        ),
        Minimum(0),
        Maximum(20),
    ] = 15
    trigger: Annotated[
        Size | None,
        Doc(
            "From this size on older copies go whether or not it pays; null: {fraction: 0.7}, or {messages: 60} for a"
            " model whose limit is unknown."
        ),
    ] = None
    exclude: Annotated[tuple[str, ...], Doc("Tools whose results stay as they are.")] = ()

    def misfits(self, around: Surroundings) -> Iterator[Misfit]:
        """A trigger that cannot work with the model, and tools that are not there."""
        yield from around.sizes(trigger=self.trigger)
        yield from around.unknown_tools(self.exclude, ("exclude",))
