"""The YAML options of the memory tools."""

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
            "Confidence of a memory that the agent saves on its own initiative; one that the user asked for has 1."
        ),
        Minimum(0),
        Maximum(1),
    ] = 0.8
    asked_per_message: Annotated[
        int,
        Doc(
            "Most memories that one message may become if the user asks in it for saving; they do not count against "
            "memory.thresholds.max_extractions."
        ),
        Minimum(0),
    ] = 5
    max_results: Annotated[int, Doc("Most memories that one search returns."), Minimum(1)] = 20
    max_characters: Annotated[
        int,
        Doc(
            "Most characters of all memories of one search together; memories that do not fit are only counted."
        ),
        Minimum(200),
    ] = 8_000

    required: Annotated[
        bool, Doc("A config without `memory:` is an error; false: the tools are omitted instead.")
    ] = True

    def misfits(self, around: Surroundings) -> Iterator[Misfit]:
        """Report a config without ``memory:``, which has no place to save memories."""
        return around.without_memory() if self.required else iter(())
