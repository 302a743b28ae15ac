"""Options of the SQLite checkpointer."""

from __future__ import annotations

from typing import Annotated

from zeus_runtime import Doc, dataclass


@dataclass(frozen=True)
class Options:
    path: Annotated[
        str | None,
        Doc("Database file, relative to the working directory; null for the threads' own SQLite database."),
    ] = None
