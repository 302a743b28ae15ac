"""The middleware component `eviction`, as Zeus finds it."""

from __future__ import annotations

from zeus_runtime.plugin import Component, hookimpl


@hookimpl
def register_middlewares() -> list[Component]:
    """Registers `eviction`."""
    return [
        Component(
            "eviction",
            create="zeus_plugins.middlewares.eviction.middleware:Eviction",
            options="zeus_plugins.middlewares.eviction.options:Options",
            summary="Large tool results go to a file; the model sees a preview and the path.",
        )
    ]
