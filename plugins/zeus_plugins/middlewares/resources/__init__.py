"""Registers the middleware component `resources`."""

from __future__ import annotations

from zeus_runtime.plugin import Component, hookimpl


@hookimpl
def register_middlewares() -> list[Component]:
    """Registers `resources`."""
    return [
        Component(
            "resources",
            create="zeus_plugins.middlewares.resources.middleware:create",
            options="zeus_plugins.middlewares.resources.options:Options",
            summary="Puts files that the user names with @ or attaches into the prompt.",
        )
    ]
