"""Registers the middleware component `dedupe`."""

from __future__ import annotations

from zeus_runtime.plugin import Component, hookimpl


@hookimpl
def register_middlewares() -> list[Component]:
    """Registers `dedupe`."""
    return [
        Component(
            "dedupe",
            create="zeus_plugins.middlewares.dedupe.middleware:create",
            options="zeus_plugins.middlewares.dedupe.options:Options",
            summary="When something is read again, the older copy becomes a pointer to the newer one.",
        )
    ]
