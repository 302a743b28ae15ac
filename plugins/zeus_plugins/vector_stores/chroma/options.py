"""Options of the vector store `chroma`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Annotated

from zeus_runtime.plugin import Destination, Doc, MinLength, Pattern, WorkRelative, dataclass

if TYPE_CHECKING:
    from zeus_runtime.plugin import Misfit, Surroundings


@dataclass(frozen=True)
class Options:
    path: Annotated[
        str | None,
        WorkRelative(folder=True, holds_keys=True),
        MinLength(1),
        Doc(
            "Folder, relative to the working directory, for one process at a time; null: next to the SQLite database,"
            " with its name and -chroma."
        ),
    ] = None
    url: Annotated[
        str | None,
        Destination(),
        Pattern(r"^https?://[^/\s@]+/?$"),
        Doc(
            "A ChromaDB server that several processes share, such as http://localhost:8000; null: the folder."
        ),
    ] = None
    headers: Annotated[
        Mapping[str, str], Doc("HTTP headers of every request to the server, such as Authorization.")
    ] = field(default_factory=dict)

    def misfits(self, around: Surroundings) -> Iterator[Misfit]:
        """Report options that exclude each other."""
        from zeus_runtime.plugin import Misfit

        if self.url is not None and self.path is not None:
            yield Misfit(
                ("path",), "a server has its own folder, so path has no effect beside url", "remove path"
            )
        if self.url is None and self.headers:
            yield Misfit(("headers",), "headers have no effect without url", "set url too")
