"""The middleware component `sandbox_files`, as Zeus finds it."""

from __future__ import annotations

from zeus_runtime.plugin import Component, hookimpl


@hookimpl
def register_middlewares() -> list[Component]:
    """Registers `sandbox_files`."""
    return [
        Component(
            "sandbox_files",
            create="zeus_plugins.middlewares.sandbox_files.middleware:SandboxFilesSection",
            options="zeus_plugins.middlewares.sandbox_files.middleware:Options",
            summary="Tells the model which files are in the sandbox.",
        )
    ]
