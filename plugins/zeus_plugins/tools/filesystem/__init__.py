"""The registration of the tool component `filesystem`."""

from __future__ import annotations

from zeus_runtime.plugin import Component, hookimpl


@hookimpl
def register_tools() -> list[Component]:
    """Register `filesystem`."""
    return [
        Component(
            "filesystem",
            create="zeus_plugins.tools.filesystem.tools:create",
            options="zeus_plugins.tools.filesystem.options:Options",
            summary="Read and change the workspace: ls read_file write_file edit_file glob grep.",
            gives={"filesystem": ""},
        )
    ]
