"""Registers the middleware component `eviction`."""

from __future__ import annotations

from zeus_runtime.plugin import Component, hookimpl


@hookimpl
def register_middlewares() -> list[Component]:
    """Registers `eviction`."""
    return [
        Component(
            "eviction",
            create="zeus_plugins.middlewares.eviction.middleware:create",
            options="zeus_plugins.middlewares.eviction.options:Options",
            summary="Moves large tool results to a file; the model sees a preview and the path.",
        )
    ]
