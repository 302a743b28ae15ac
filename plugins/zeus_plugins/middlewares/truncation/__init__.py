"""Registers the middleware component `truncation`."""

from __future__ import annotations

from zeus_runtime.plugin import Component, hookimpl


@hookimpl
def register_middlewares() -> list[Component]:
    """Registers `truncation`."""
    return [
        Component(
            "truncation",
            create="zeus_plugins.middlewares.truncation.middleware:create",
            options="zeus_plugins.middlewares.truncation.options:Options",
            summary="Cuts long arguments of old tool calls; the model sees their beginning and the path of the rest.",
        )
    ]
