"""The tool component `subagents`, as Zeus finds it."""

from __future__ import annotations

from zeus_runtime.plugin import Component, hookimpl


@hookimpl
def register_tools() -> list[Component]:
    """Registers `subagents`."""
    return [
        Component(
            "subagents",
            create="zeus_plugins.tools.subagents.tools:create",
            options="zeus_plugins.tools.subagents.options:Options",
            summary="task: give work to a general agent or one of the config's, which works in a session of its own.",
            gives={"builtin": "agents under `agents:`, or `general: true`"},
        )
    ]
