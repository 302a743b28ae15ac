"""Memory: items, scopes, permissions and the service that saves and finds them.

Every write passes the service's gate; an item has a type, a scope and its sources.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeus_runtime.lazy import lazy

if TYPE_CHECKING:
    from zeus_runtime.memory.items import Embedding as Embedding
    from zeus_runtime.memory.items import MemoryItem as MemoryItem
    from zeus_runtime.memory.items import MemoryType as MemoryType
    from zeus_runtime.memory.items import Scope as Scope
    from zeus_runtime.memory.outcomes import Saved as Saved
    from zeus_runtime.memory.outcomes import UnknownMemoryError as UnknownMemoryError
    from zeus_runtime.memory.permissions import Reach as Reach
    from zeus_runtime.memory.retrieval.ranking import Ranked as Ranked
    from zeus_runtime.memory.service import MemoryService as MemoryService

_ROOMS = {
    "Embedding": "memory.items",
    "MemoryItem": "memory.items",
    "MemoryService": "memory.service",
    "MemoryType": "memory.items",
    "Ranked": "memory.retrieval.ranking",
    "Reach": "memory.permissions",
    "Saved": "memory.outcomes",
    "Scope": "memory.items",
    "UnknownMemoryError": "memory.outcomes",
}

__all__ = [*sorted(_ROOMS)]

__getattr__, __dir__ = lazy(__name__, _ROOMS, root="zeus_runtime")
