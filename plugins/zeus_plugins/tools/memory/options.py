"""What the YAML can say of the memory tools."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from zeus_runtime.plugin import Doc, Maximum, Minimum, Misfit, Surroundings, dataclass


@dataclass(frozen=True)
class Options:
    """Options of ``memory``."""

    confidence: Annotated[
        float,
        Doc(
            "How sure a memory counts that the agent saves of its own accord; one the user asked for counts 1."
        ),
        Minimum(0),
        Maximum(1),
    ] = 0.8
    asked_per_message: Annotated[
        int,
        Doc(
            "Memories that one message of the user which asks for saving may be kept as, without counting against "
            "memory.thresholds.max_extractions."
        ),
        Minimum(0),
    ] = 5
    max_results: Annotated[int, Doc("Memories that one search gives at most."), Minimum(1)] = 20
    max_characters: Annotated[
        int, Doc("Characters of one search's memories together; the rest is counted."), Minimum(200)
    ] = 8_000

    required: Annotated[
        bool, Doc("An agent without `memory:` is an error; false: the tools are not there then.")
    ] = True

    def misfits(self, around: Surroundings) -> Iterator[Misfit]:
        """Without ``memory:`` there is nothing to save to."""
        return around.without_memory() if self.required else iter(())
