"""Registers the middleware component `local_context`."""

from __future__ import annotations

from zeus_runtime.plugin import Component, hookimpl


@hookimpl
def register_middlewares() -> list[Component]:
    """Registers `local_context`."""
    return [
        Component(
            "local_context",
            create="zeus_plugins.middlewares.local_context.middleware:create",
            options="zeus_plugins.middlewares.local_context.options:Options",
            summary="Tells the model the git state and a short tree of the workspace.",
        )
    ]
