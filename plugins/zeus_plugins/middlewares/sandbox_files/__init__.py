"""Registers the middleware component `sandbox_files`."""

from __future__ import annotations

from zeus_runtime.plugin import Component, hookimpl


@hookimpl
def register_middlewares() -> list[Component]:
    """Registers `sandbox_files`."""
    return [
        Component(
            "sandbox_files",
            create="zeus_plugins.middlewares.sandbox_files.middleware:create",
            options="zeus_plugins.middlewares.sandbox_files.middleware:Options",
            summary="Lists the files in the sandbox for the model.",
        )
    ]
