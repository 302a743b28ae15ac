"""Registers the middleware component `memory`."""

from __future__ import annotations

from zeus_runtime.plugin import Component, hookimpl


@hookimpl
def register_middlewares() -> list[Component]:
    """Registers `memory`."""
    return [
        Component(
            "memory",
            create="zeus_plugins.middlewares.memory.middleware:create",
            options="zeus_plugins.middlewares.memory.options:Options",
            summary="Puts the profile and memories relevant to the user's message into the prompt.",
        )
    ]
