"""Registers the checkpointer component `memory`."""

from __future__ import annotations

from zeus_runtime.plugin import Component, hookimpl


@hookimpl
def register_checkpointers() -> list[Component]:
    """Registers `memory`."""
    return [
        Component(
            "memory",
            create="zeus_plugins.checkpointers.memory.saver:create",
            summary="Checkpoints in memory; they are lost when the process ends.",
        )
    ]
