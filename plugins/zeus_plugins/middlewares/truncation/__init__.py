"""The middleware component `truncation`, as Zeus finds it."""

from __future__ import annotations

from zeus_runtime.plugin import Component, hookimpl


@hookimpl
def register_middlewares() -> list[Component]:
    """Registers `truncation`."""
    return [
        Component(
            "truncation",
            create="zeus_plugins.middlewares.truncation.middleware:Truncation",
            options="zeus_plugins.middlewares.truncation.options:Options",
            summary="Long arguments of old tool calls are cut; the model sees their start and where the rest is.",
        )
    ]
