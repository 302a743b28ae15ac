"""The registration of the tool component `subagents`."""

from __future__ import annotations

from zeus_runtime.plugin import Component, hookimpl


@hookimpl
def register_tools() -> list[Component]:
    """Register `subagents`."""
    return [
        Component(
            "subagents",
            create="zeus_plugins.tools.subagents.tools:create",
            options="zeus_plugins.tools.subagents.options:Options",
            summary="task: give work to a general agent or to one of the config's, in a separate session.",
            gives={"builtin": "agents under `agents:`, or `general: true`"},
        )
    ]
