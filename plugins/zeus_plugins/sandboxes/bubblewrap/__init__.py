"""The sandbox component `bubblewrap`, as Zeus finds it."""

from __future__ import annotations

from zeus_runtime.plugin import Component, hookimpl


@hookimpl
def register_sandboxes() -> list[Component]:
    """Registers `bubblewrap`."""
    return [
        Component(
            "bubblewrap",
            create="zeus_plugins.sandboxes.bubblewrap.backend:create",
            options="zeus_plugins.sandboxes.bubblewrap.options:Options",
            summary="Programs in Linux namespaces of their own: no network, no host files, a system call filter.",
        )
    ]
