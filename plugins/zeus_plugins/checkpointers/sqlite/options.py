"""Options of the SQLite checkpointer."""

from __future__ import annotations

from typing import Annotated

from zeus_runtime.plugin import Doc, WorkRelative, dataclass


@dataclass(frozen=True)
class Options:
    path: Annotated[
        str | None,
        WorkRelative(protected=True, holds_keys=True),
        Doc("Database file, relative to the working directory; null: the threads' SQLite database."),
    ] = None
