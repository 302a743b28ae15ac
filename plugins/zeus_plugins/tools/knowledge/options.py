"""Options of the knowledge tools."""

from __future__ import annotations

from typing import Annotated

from zeus_runtime.plugin import Doc, Maximum, Minimum, dataclass


@dataclass(frozen=True)
class Options:
    top_k: Annotated[
        int, Doc("Passages that a search returns unless the model asks for another number."), Minimum(1)
    ] = 5
    max_top_k: Annotated[int, Doc("Most passages that the model may ask for."), Minimum(1), Maximum(100)] = 20
    page_chars: Annotated[int, Doc("Characters on one page of a document."), Minimum(500)] = 24_000
