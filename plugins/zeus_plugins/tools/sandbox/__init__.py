"""The registration of the tool component `sandbox`."""

from __future__ import annotations

from zeus_runtime.plugin import Component, hookimpl


@hookimpl
def register_tools() -> list[Component]:
    """Register `sandbox`."""
    return [
        Component(
            "sandbox",
            create="zeus_plugins.tools.sandbox.tools:create",
            options="zeus_plugins.tools.sandbox.options:Options",
            summary="Run code in a sandbox, as in a shell: create_sandbox execute_code copy_from_sandbox.",
            gives={"sandbox": "bubblewrap, or another backend"},
        )
    ]
