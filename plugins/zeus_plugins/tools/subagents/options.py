"""Options of the tool `task`."""

from __future__ import annotations

from typing import Annotated

from zeus_runtime.plugin import Doc, dataclass


@dataclass(frozen=True)
class Options:
    general: Annotated[
        bool,
        Doc(
            "Add an agent `general` to those under `agents`: this config without agents; it knows only its prompt."
        ),
    ] = False
