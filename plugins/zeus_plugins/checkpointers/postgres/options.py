"""Options of the PostgreSQL checkpointer."""

from __future__ import annotations

from typing import Annotated

from zeus_runtime.plugin import Destination, Doc, Pattern, dataclass


@dataclass(frozen=True)
class Options:
    url: Annotated[
        str | None,
        Destination(),
        Pattern(r"^postgres(ql)?(\+psycopg)?://"),
        Doc(
            "URL of the database, such as postgresql://user@host/database; null: the threads' database (storage.url)."
        ),
    ] = None
