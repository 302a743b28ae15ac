"""The memory backend `database`: memories in the agent's own database, beside its sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zeus_runtime.plugin import PlanContext
    from zeus_runtime.plugin.memory import MemoryBackend


def create(options: None, context: PlanContext) -> MemoryBackend:
    """The backend over the database that the memory has open for members and profiles."""
    assert context.memory is not None, "a memory creates its backend"
    return context.memory.in_database
