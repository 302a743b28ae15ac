"""Options of the caching middleware."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from zeus_runtime.plugin import Doc, Minimum, dataclass

Place: TypeAlias = Literal["tools", "system", "messages"]


@dataclass(frozen=True)
class Options:
    places: Annotated[
        tuple[Place, ...],
        Doc(
            "Where cache points go: after the tools, after sections 1-6, after the last message and the one before the"
            " last answer."
        ),
    ] = ("tools", "system", "messages")
    lifetime: Annotated[
        Literal["5m", "1h"],
        Doc(
            "How long the provider keeps it unused; `1h` costs twice the input price to write, `5m` 1.25 times."
        ),
    ] = "5m"
    minimum_tokens: Annotated[
        int | None,
        Doc("The shortest prefix worth a cache point, in tokens; null takes the model's own from the table."),
        Minimum(0),
    ] = None
