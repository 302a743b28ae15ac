"""Registers the search component `duckduckgo`."""

from __future__ import annotations

from zeus_runtime.plugin import Component, hookimpl


@hookimpl
def register_searches() -> list[Component]:
    """Registers `duckduckgo`."""
    return [
        Component(
            "duckduckgo",
            create="zeus_plugins.searches.duckduckgo.search:create",
            options="zeus_plugins.searches.duckduckgo.search:Options",
            summary="Searches DuckDuckGo; needs no key.",
        )
    ]
