"""Options of the memory middleware."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from zeus_runtime.plugin import Doc, Maximum, Minimum, Misfit, Ref, RefTo, Surroundings, dataclass


@dataclass(frozen=True)
class Options:
    top_k: Annotated[
        int | None,
        Doc(
            "Memories in the prompt; 0: none; null: all that hold while max_characters has room for them, else"
            " memory.thresholds.top_k."
        ),
        Minimum(0),
    ] = None
    max_characters: Annotated[
        int | None,
        Doc("Maximum characters of all memories together; null: memory.thresholds.max_prompt_characters."),
        Minimum(0),
    ] = None
    min_score: Annotated[
        float, Doc("Memories with a lower final_score are not shown."), Minimum(0), Maximum(1)
    ] = 0.0
    profile: Annotated[bool, Doc("Show the profiles of the user and the project.")] = True
    max_profile_characters: Annotated[
        int,
        Doc(
            "Maximum characters of the profile; a Chinese one counts as three. The last lines are dropped first."
        ),
        Minimum(200),
    ] = 2_000
    profile_after: Annotated[
        int | None,
        Doc(
            "After a run, derive the profiles again once this many memories are new or changed; null: never."
        ),
        Minimum(1),
    ] = 5
    profile_model: Annotated[
        Ref | None,
        RefTo("model", plain=("litellm", "model")),
        Doc("A model that adds to the profiles what the rules do not find; null: rules only."),
    ] = None

    required: Annotated[
        bool, Doc("Without `memory:` in the agent, this line is an error; false: it does nothing instead.")
    ] = True

    def misfits(self, around: Surroundings) -> Iterator[Misfit]:
        """Report an agent without ``memory:``."""
        return around.without_memory() if self.required else iter(())
