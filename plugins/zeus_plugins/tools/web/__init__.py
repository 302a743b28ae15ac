"""The registration of the tool component `web`."""

from __future__ import annotations

from zeus_runtime.plugin import Component, hookimpl


@hookimpl
def register_tools() -> list[Component]:
    """Register `web`."""
    return [
        Component(
            "web",
            create="zeus_plugins.tools.web.tools:create",
            options="zeus_plugins.tools.web.options:Options",
            summary="Search the public web and fetch its pages: web_search web_fetch.",
            gives={"web": ""},
        )
    ]
