"""Options of the tool `task`."""

from __future__ import annotations

from typing import Annotated

from zeus_runtime.plugin import Doc, dataclass


@dataclass(frozen=True)
class Options:
    general: Annotated[
        bool,
        Doc(
            "Bring an agent `general` besides those under `agents`: this config without agents, which knows its prompt"
            " alone."
        ),
    ] = False
