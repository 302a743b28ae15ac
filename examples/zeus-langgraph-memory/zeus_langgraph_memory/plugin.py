"""What the plugin registers; names only, so that reading a config stays fast."""

from __future__ import annotations

from zeus_runtime.plugin import Component, hookimpl


@hookimpl
def register_memories() -> list[Component]:
    """Registers `langgraph`."""
    return [
        Component(
            "langgraph",
            create="zeus_langgraph_memory.backend:create",
            options="zeus_langgraph_memory.backend:Options",
            summary="Memories in LangGraph's SQLite store.",
        )
    ]
