"""Options of the caching middleware."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from zeus_runtime.plugin import Doc, Minimum, Tunable, dataclass

Place: TypeAlias = Literal["tools", "system", "messages"]


@dataclass(frozen=True)
class Options:
    places: Annotated[
        tuple[Place, ...],
        Doc(
            "Where to set cache points: after the tools, after sections 1-6, after the last message and the one before"
            " the last answer."
        ),
    ] = ("tools", "system", "messages")
    lifetime: Annotated[
        Literal["5m", "1h"],
        Doc(
            "How long the provider keeps an unused cache; writing costs twice the input price for `1h`, 1.25 times for"
            " `5m`."
        ),
        Tunable(("5m", "1h")),
    ] = "5m"
    minimum_tokens: Annotated[
        int | None,
        Doc("The shortest prefix that gets a cache point, in tokens; null: the model's minimum."),
        Minimum(0),
    ] = None
