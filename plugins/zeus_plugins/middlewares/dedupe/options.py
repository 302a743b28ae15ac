"""Options of the dedupe policy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from zeus_runtime.plugin import Doc, Maximum, Minimum, Tunable, dataclass
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
            "The number of further model calls over which the saving is weighed against one miss of the provider's"
            " cache for the rest of the conversation; 0: only the trigger counts."
        ),
        Tunable((0, 5, 10, 15, 20)),
        Minimum(0),
        Maximum(20),
    ] = 15
    trigger: Annotated[
        Size | None,
        Doc(
            "From this size on, all older copies are replaced, even if it costs more than it saves; null:"
            " {fraction: 0.7}, or {messages: 60} for a model whose limit is unknown."
        ),
    ] = None
    exclude: Annotated[tuple[str, ...], Doc("Tools whose results are never replaced.")] = ()

    def misfits(self, around: Surroundings) -> Iterator[Misfit]:
        """Report a trigger that cannot work with the model, and unknown tools."""
        yield from around.sizes(trigger=self.trigger)
        yield from around.unknown_tools(self.exclude, ("exclude",))
