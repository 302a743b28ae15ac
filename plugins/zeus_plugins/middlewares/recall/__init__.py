"""Registers the middleware component `recall`."""

from __future__ import annotations

from zeus_runtime.plugin import Component, hookimpl


@hookimpl
def register_middlewares() -> list[Component]:
    """Registers `recall`."""
    return [
        Component(
            "recall",
            create="zeus_plugins.middlewares.recall.middleware:create",
            options="zeus_plugins.middlewares.recall.options:Options",
            summary="A tool that searches and reads messages that left the model's view.",
            gives={"builtin": ""},
        )
    ]
