"""The registration of the tool component `memory`."""

from __future__ import annotations

from zeus_runtime.plugin import Component, hookimpl


@hookimpl
def register_tools() -> list[Component]:
    """Register `memory`."""
    return [
        Component(
            "memory",
            create="zeus_plugins.tools.memory.tools:create",
            options="zeus_plugins.tools.memory.options:Options",
            summary="Long-term memory: memory_save memory_search memory_delete memory_stats.",
            gives={"memory": "the key `memory:`"},
        )
    ]
