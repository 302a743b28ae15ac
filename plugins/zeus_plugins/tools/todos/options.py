"""The YAML options of the task list."""

from __future__ import annotations

from typing import Annotated

from zeus_runtime.plugin import Doc, Minimum, dataclass


@dataclass(frozen=True)
class Options:
    """Options of ``todos``."""

    max_items: Annotated[int, Doc("Most tasks in a list."), Minimum(1)] = 50
    max_chars: Annotated[int, Doc("Most characters in one task."), Minimum(1)] = 500
