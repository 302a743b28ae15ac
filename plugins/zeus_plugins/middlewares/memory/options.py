"""Options of the memory middleware."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from zeus_runtime.plugin import Doc, Maximum, Minimum, Misfit, Ref, RefTo, Surroundings, dataclass


@dataclass(frozen=True)
class Options:
    top_k: Annotated[
        int | None,
        Doc("Memories in the prompt; 0 shows none; null: memory.thresholds.top_k."),
        Minimum(0),
    ] = None
    max_characters: Annotated[
        int | None,
        Doc("Characters of all memories together; null: memory.thresholds.max_prompt_characters."),
        Minimum(0),
    ] = None
    min_score: Annotated[
        float, Doc("Memories with a lower final_score are not shown."), Minimum(0), Maximum(1)
    ] = 0.0
    profile: Annotated[bool, Doc("Show what is known of the user and the project.")] = True
    max_profile_characters: Annotated[
        int, Doc("Characters of the profile, a Chinese one as three; its last lines go first."), Minimum(200)
    ] = 2_000
    profile_after: Annotated[
        int | None,
        Doc("After a run, draw the profiles anew once so many memories are new or changed; null: never."),
        Minimum(1),
    ] = 5
    profile_model: Annotated[
        Ref | None,
        RefTo("model", plain=("litellm", "model")),
        Doc("A model that draws what the rules do not find; null: the rules alone."),
    ] = None

    required: Annotated[
        bool, Doc("An agent without `memory:` is an error; false: this line does nothing then.")
    ] = True

    def misfits(self, around: Surroundings) -> Iterator[Misfit]:
        """Without ``memory:`` there is nothing to show."""
        return around.without_memory() if self.required else iter(())
