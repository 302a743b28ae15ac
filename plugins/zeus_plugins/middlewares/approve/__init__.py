"""Registers the middleware component `approve`."""

from __future__ import annotations

from zeus_runtime.plugin import Component, hookimpl


@hookimpl
def register_middlewares() -> list[Component]:
    """Registers `approve`."""
    return [
        Component(
            "approve",
            create="zeus_plugins.middlewares.approve.middleware:create",
            options="zeus_plugins.middlewares.approve.options:Options",
            summary="Approvals (permissions): asks the user before tools run, by rules and the user's allowlist.",
        )
    ]
