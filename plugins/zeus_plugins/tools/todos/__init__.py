"""The registration of the tool component `todos`."""

from __future__ import annotations

from zeus_runtime.plugin import Component, hookimpl


@hookimpl
def register_tools() -> list[Component]:
    """Register `todos`."""
    return [
        Component(
            "todos",
            create="zeus_plugins.tools.todos.tools:create",
            options="zeus_plugins.tools.todos.options:Options",
            summary="The agent's task list: write_todos read_todos.",
            gives={"todos": ""},
        )
    ]
