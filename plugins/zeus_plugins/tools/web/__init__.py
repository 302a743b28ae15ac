"""The tool component `web`, as Zeus finds it."""

from __future__ import annotations

from zeus_runtime.plugin import Component, hookimpl


@hookimpl
def register_tools() -> list[Component]:
    """Registers `web`."""
    return [
        Component(
            "web",
            create="zeus_plugins.tools.web.tools:create",
            options="zeus_plugins.tools.web.options:Options",
            summary="The public web: web_search web_fetch.",
            gives={"web": ""},
        )
    ]
