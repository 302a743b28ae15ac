"""The tool component `subagents`, as Zeus finds it."""

from __future__ import annotations

from zeus_runtime import Component, hookimpl


@hookimpl
def register_tools() -> list[Component]:
    """Registers `subagents`."""
    return [
        Component(
            "subagents",
            create="zeus_plugins.tools.subagents.tools:create",
            summary="task: give work to one of the config's agents, which works in a session of its own.",
            gives={"builtin": "agents under `agents:`"},
        )
    ]
