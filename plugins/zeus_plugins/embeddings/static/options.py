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
            "Compare words that are not in the table (Chinese, other scripts) by their characters; "
            "false ignores them."
        ),
    ] = True
