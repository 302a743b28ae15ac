"""Vector stores: the interface, its entries and queries.

A ``VectorStore`` stores an ``Entry`` for each memory's vector and answers a ``VectorQuery`` with the nearest ones. Each
of its ``VectorCollection``s stores ``CollectionEntries``, the vectors of one knowledge base.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeus_runtime.lazy import lazy

if TYPE_CHECKING:
    from zeus_runtime.memory.vectors import DIGEST_BYTES as DIGEST_BYTES
    from zeus_runtime.memory.vectors import AtHand as AtHand
    from zeus_runtime.memory.vectors import CollectionEntries as CollectionEntries
    from zeus_runtime.memory.vectors import Entry as Entry
    from zeus_runtime.memory.vectors import FoundVector as FoundVector
    from zeus_runtime.memory.vectors import VectorCollection as VectorCollection
    from zeus_runtime.memory.vectors import VectorQuery as VectorQuery
    from zeus_runtime.memory.vectors import VectorStore as VectorStore
    from zeus_runtime.store.identity import database_identity as database_identity

_ROOMS = {
    "DIGEST_BYTES": "memory.vectors",
    "AtHand": "memory.vectors",
    "CollectionEntries": "memory.vectors",
    "Entry": "memory.vectors",
    "FoundVector": "memory.vectors",
    "VectorCollection": "memory.vectors",
    "VectorQuery": "memory.vectors",
    "VectorStore": "memory.vectors",
    "database_identity": "store.identity",
}

__all__ = [*sorted(_ROOMS)]

__getattr__, __dir__ = lazy(__name__, _ROOMS, root="zeus_runtime")
