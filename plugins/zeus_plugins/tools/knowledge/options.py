"""Options of the knowledge tools."""

from __future__ import annotations

from typing import Annotated

from zeus_runtime.plugin import Doc, Maximum, Minimum, dataclass


@dataclass(frozen=True)
class Options:
    top_k: Annotated[
        int, Doc("Passages a search gives unless the model asks for another number."), Minimum(1)
    ] = 5
    max_top_k: Annotated[int, Doc("Passages the model may ask for."), Minimum(1), Maximum(100)] = 20
    page_chars: Annotated[int, Doc("Characters on one page of a document that is read."), Minimum(500)] = (
        24_000
    )
