"""Vector stores: the interface, its entries and queries.

A ``VectorStore`` stores an ``Entry`` for each vector and answers a ``VectorQuery`` with the nearest ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeus_runtime.lazy import lazy

if TYPE_CHECKING:
    from zeus_runtime.memory.vectors import AtHand as AtHand
    from zeus_runtime.memory.vectors import Entry as Entry
    from zeus_runtime.memory.vectors import VectorQuery as VectorQuery
    from zeus_runtime.memory.vectors import VectorStore as VectorStore

_ROOMS = {
    "AtHand": "memory.vectors",
    "Entry": "memory.vectors",
    "VectorQuery": "memory.vectors",
    "VectorStore": "memory.vectors",
}

__all__ = [*sorted(_ROOMS)]

__getattr__, __dir__ = lazy(__name__, _ROOMS, root="zeus_runtime")
