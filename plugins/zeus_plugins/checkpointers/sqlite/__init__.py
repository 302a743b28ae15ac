"""Registers the checkpointer component `sqlite`."""

from __future__ import annotations

from zeus_runtime.plugin import Component, hookimpl


@hookimpl
def register_checkpointers() -> list[Component]:
    """Registers `sqlite`."""
    return [
        Component(
            "sqlite",
            create="zeus_plugins.checkpointers.sqlite.saver:create",
            options="zeus_plugins.checkpointers.sqlite.options:Options",
            summary="Checkpoints in the threads' SQLite database.",
        )
    ]
