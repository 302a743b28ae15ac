"""Options of the recall tool."""

from __future__ import annotations

from typing import Annotated

from zeus_runtime.plugin import Doc, Minimum, dataclass


@dataclass(frozen=True)
class Options:
    results_per_page: Annotated[int, Doc("Finds on one page of a search."), Minimum(1)] = 8
    excerpt_chars: Annotated[int, Doc("Characters of a find's excerpt, about."), Minimum(40)] = 300
    page_chars: Annotated[int, Doc("Characters on one page of a message that is read."), Minimum(100)] = (
        12_000
    )
