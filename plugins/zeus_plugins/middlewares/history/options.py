"""Options of the history policy."""

from __future__ import annotations

from typing import Annotated

from zeus_runtime.plugin import Doc, Minimum, Tunable, dataclass


@dataclass(frozen=True)
class Options:
    max_messages: Annotated[
        int,
        Doc("Maximum number of earlier messages that are sent at the start of a turn."),
        Minimum(1),
        Tunable((10, 20, 30, 50, 100)),
    ] = 30
    chunk: Annotated[
        int,
        Doc(
            "Messages dropped at once, so that the prefix (and the cache) changes rarely; with 1 it changes every turn."
        ),
        Minimum(1),
        Tunable((1, 5, 10, 20)),
    ] = 10
