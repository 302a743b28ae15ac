"""The tool component `sandbox`, as Zeus finds it."""

from __future__ import annotations

from zeus_runtime.plugin import Component, hookimpl


@hookimpl
def register_tools() -> list[Component]:
    """Registers `sandbox`."""
    return [
        Component(
            "sandbox",
            create="zeus_plugins.tools.sandbox.tools:create",
            options="zeus_plugins.tools.sandbox.options:Options",
            summary="Run code, as in a shell, where it can do no harm: create_sandbox execute_code copy_from_sandbox.",
            gives={"sandbox": "bubblewrap, or another backend"},
        )
    ]
