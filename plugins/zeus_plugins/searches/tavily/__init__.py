"""Registers the search component `tavily`."""

from __future__ import annotations

from zeus_runtime.plugin import Component, hookimpl


@hookimpl
def register_searches() -> list[Component]:
    """Registers `tavily`."""
    return [
        Component(
            "tavily",
            create="zeus_plugins.searches.tavily.search:create",
            options="zeus_plugins.searches.tavily.search:Options",
            summary="Searches with Tavily; needs TAVILY_API_KEY.",
        )
    ]
