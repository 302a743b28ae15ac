"""Options of the embedding component `static`."""

from __future__ import annotations

from typing import Annotated

from zeus_runtime.plugin import Doc, dataclass


@dataclass(frozen=True)
class Options:
    """``memory: {embeddings: {static: {characters: false}}}``."""

    characters: Annotated[
        bool,
        Doc(
            "Words that the table does not have (Chinese, other scripts) are compared by their characters; "
            "false leaves them out."
        ),
    ] = True
