"""Options of the vector store `chroma`."""

from __future__ import annotations

from typing import Annotated

from zeus_runtime.plugin import Doc, MinLength, WorkRelative, dataclass


@dataclass(frozen=True)
class Options:
    path: Annotated[
        str | None,
        WorkRelative(protected=True, holds_keys=True),
        MinLength(1),
        Doc(
            "Folder, relative to the working directory; null: next to the SQLite database, with its name and -chroma."
        ),
    ] = None
