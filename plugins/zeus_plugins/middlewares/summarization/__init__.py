"""Registers the middleware component `summarization`."""

from __future__ import annotations

from zeus_runtime.plugin import Component, hookimpl


@hookimpl
def register_middlewares() -> list[Component]:
    """Registers `summarization`."""
    return [
        Component(
            "summarization",
            create="zeus_plugins.middlewares.summarization.middleware:create",
            options="zeus_plugins.middlewares.summarization.options:Options",
            summary="Compaction: a summary replaces old messages when the window fills; the originals stay stored.",
        )
    ]
