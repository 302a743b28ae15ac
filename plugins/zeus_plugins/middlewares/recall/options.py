"""Options of the recall tool."""

from __future__ import annotations

from typing import Annotated

from zeus_runtime.plugin import Doc, Minimum, dataclass


@dataclass(frozen=True)
class Options:
    results_per_page: Annotated[int, Doc("Search results per page."), Minimum(1)] = 8
    excerpt_chars: Annotated[int, Doc("Approximate characters of an excerpt."), Minimum(40)] = 300
    page_chars: Annotated[int, Doc("Characters per page when a message is read."), Minimum(100)] = 12_000
