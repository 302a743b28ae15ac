"""The checkpointer component `memory`, as Zeus finds it."""

from __future__ import annotations

from zeus_runtime.plugin import Component, hookimpl


@hookimpl
def register_checkpointers() -> list[Component]:
    """Registers `memory`."""
    return [
        Component(
            "memory",
            create="zeus_plugins.checkpointers.memory.saver:create",
            summary="Checkpoints in memory; they end with the process.",
        )
    ]
