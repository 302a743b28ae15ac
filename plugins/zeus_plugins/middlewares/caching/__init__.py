"""Registers the middleware component `caching`."""

from __future__ import annotations

from zeus_runtime.plugin import Component, hookimpl


@hookimpl
def register_middlewares() -> list[Component]:
    """Registers `caching`."""
    return [
        Component(
            "caching",
            create="zeus_plugins.middlewares.caching.middleware:create",
            options="zeus_plugins.middlewares.caching.options:Options",
            summary="Asks providers that cache only on request (Anthropic) to cache the stable prefix.",
        )
    ]
