"""Web searches: the interface and its hits.

A ``WebSearch`` answers a query with a list of ``SearchHit``: title, address, excerpt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeus_runtime.lazy import lazy

if TYPE_CHECKING:
    from zeus_runtime.tools.search import SearchHit as SearchHit
    from zeus_runtime.tools.search import WebSearch as WebSearch

_ROOMS = {
    "SearchHit": "tools.search",
    "WebSearch": "tools.search",
}

__all__ = [*sorted(_ROOMS)]

__getattr__, __dir__ = lazy(__name__, _ROOMS, root="zeus_runtime")
