"""Registers the middleware component `pins`."""

from __future__ import annotations

from zeus_runtime.plugin import Component, hookimpl


@hookimpl
def register_middlewares() -> list[Component]:
    """Registers `pins`."""
    return [
        Component(
            "pins",
            create="zeus_plugins.middlewares.pins.middleware:create",
            options="zeus_plugins.middlewares.pins.options:Options",
            summary="Keeps messages in the model's view for ever, whatever other policies do.",
        )
    ]
