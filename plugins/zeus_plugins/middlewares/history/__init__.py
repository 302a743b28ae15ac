"""Registers the middleware component `history`."""

from __future__ import annotations

from zeus_runtime.plugin import Component, hookimpl


@hookimpl
def register_middlewares() -> list[Component]:
    """Registers `history`."""
    return [
        Component(
            "history",
            create="zeus_plugins.middlewares.history.middleware:create",
            options="zeus_plugins.middlewares.history.options:Options",
            summary="Sends only the last messages of earlier turns; the whole history stays stored.",
        )
    ]
