"""Memory: items, scopes, permissions and the service that saves and finds them.

Every write passes the service's gate; an item has a type, a scope and its sources. A ``MemoryBackend`` stores and finds
items; the service gives it what the gate let through (``MemoryWrite``), and checks what comes back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeus_runtime.lazy import lazy

if TYPE_CHECKING:
    from zeus_runtime.memory.backend import FoundMemory as FoundMemory
    from zeus_runtime.memory.backend import MemoryBackend as MemoryBackend
    from zeus_runtime.memory.backend import MemoryFilter as MemoryFilter
    from zeus_runtime.memory.backend import MemoryWrite as MemoryWrite
    from zeus_runtime.memory.backend import Written as Written
    from zeus_runtime.memory.backend import last_changed_first as last_changed_first
    from zeus_runtime.memory.backend import memory_as_json as memory_as_json
    from zeus_runtime.memory.backend import memory_of_json as memory_of_json
    from zeus_runtime.memory.backend import word_similarity as word_similarity
    from zeus_runtime.memory.items import Caller as Caller
    from zeus_runtime.memory.items import Embedding as Embedding
    from zeus_runtime.memory.items import MemoryItem as MemoryItem
    from zeus_runtime.memory.items import MemoryType as MemoryType
    from zeus_runtime.memory.items import Scope as Scope
    from zeus_runtime.memory.items import Source as Source
    from zeus_runtime.memory.outcomes import Saved as Saved
    from zeus_runtime.memory.outcomes import UnknownMemoryError as UnknownMemoryError
    from zeus_runtime.memory.permissions import Reach as Reach
    from zeus_runtime.memory.provenance import TurnSources as TurnSources
    from zeus_runtime.memory.provenance import source_of_tool as source_of_tool
    from zeus_runtime.memory.provenance import source_of_words as source_of_words
    from zeus_runtime.memory.records import HistoryEntry as HistoryEntry
    from zeus_runtime.memory.retrieval.ranking import Ranked as Ranked
    from zeus_runtime.memory.service import MemoryService as MemoryService

_ROOMS = {
    "Caller": "memory.items",
    "FoundMemory": "memory.backend",
    "HistoryEntry": "memory.records",
    "MemoryBackend": "memory.backend",
    "MemoryFilter": "memory.backend",
    "MemoryWrite": "memory.backend",
    "Written": "memory.backend",
    "last_changed_first": "memory.backend",
    "memory_as_json": "memory.backend",
    "memory_of_json": "memory.backend",
    "word_similarity": "memory.backend",
    "Embedding": "memory.items",
    "MemoryItem": "memory.items",
    "MemoryService": "memory.service",
    "MemoryType": "memory.items",
    "Ranked": "memory.retrieval.ranking",
    "Reach": "memory.permissions",
    "Saved": "memory.outcomes",
    "Scope": "memory.items",
    "Source": "memory.items",
    "TurnSources": "memory.provenance",
    "source_of_tool": "memory.provenance",
    "source_of_words": "memory.provenance",
    "UnknownMemoryError": "memory.outcomes",
}

__all__ = [*sorted(_ROOMS)]

__getattr__, __dir__ = lazy(__name__, _ROOMS, root="zeus_runtime")
