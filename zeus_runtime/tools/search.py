"""Web searches: what a component of kind ``search`` gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class SearchHit(NamedTuple):
    """One thing found.

    Args:
        title: the page's.
        url: its address.
        text: a few lines of it.
    """

    title: str
    url: str
    text: str = ""


class WebSearch(Protocol):
    """Searches the web."""

    async def search(self, query: str, *, max_results: int) -> Sequence[SearchHit]:
        """The best pages first.

        Raises:
            RunError: the search does not answer; the model reads why.
        """
        ...
