"""Registers the checkpointer component `postgres`."""

from __future__ import annotations

from zeus_runtime.plugin import Component, hookimpl


@hookimpl
def register_checkpointers() -> list[Component]:
    """Registers `postgres`."""
    return [
        Component(
            "postgres",
            create="zeus_plugins.checkpointers.postgres.opening:create",
            options="zeus_plugins.checkpointers.postgres.options:Options",
            summary="Checkpoints in a PostgreSQL database.",
        )
    ]
