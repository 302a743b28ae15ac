"""The middleware component `pins`, as Zeus finds it."""

from __future__ import annotations

from zeus_runtime.plugin import Component, hookimpl


@hookimpl
def register_middlewares() -> list[Component]:
    """Registers `pins`."""
    return [
        Component(
            "pins",
            create="zeus_plugins.middlewares.pins.middleware:Pins",
            options="zeus_plugins.middlewares.pins.options:Options",
            summary="Messages that stay in the model's view for ever, whatever other policies do.",
        )
    ]
