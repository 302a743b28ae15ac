"""What the YAML can say of the task list."""

from __future__ import annotations

from typing import Annotated

from zeus_runtime.plugin import Doc, Minimum, dataclass


@dataclass(frozen=True)
class Options:
    """Options of ``todos``."""

    max_items: Annotated[int, Doc("Tasks a list may hold."), Minimum(1)] = 50
    max_chars: Annotated[int, Doc("Characters one task may have."), Minimum(1)] = 500
