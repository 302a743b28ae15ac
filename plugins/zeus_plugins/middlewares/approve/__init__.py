"""The middleware component `approve`, as Zeus finds it."""

from __future__ import annotations

from zeus_runtime import Component, hookimpl


@hookimpl
def register_middlewares() -> list[Component]:
    """Registers `approve`."""
    return [
        Component(
            "approve",
            create="zeus_plugins.middlewares.approve.middleware:create",
            options="zeus_plugins.middlewares.approve.options:Options",
            summary="Asks the user before tools run: always, never, or what rules and the user's allowlist leave.",
        )
    ]
