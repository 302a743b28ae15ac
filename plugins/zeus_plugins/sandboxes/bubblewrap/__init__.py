"""Registers the sandbox component `bubblewrap`."""

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
            summary="Runs programs in new Linux namespaces: no network, no host files, a system call filter.",
        )
    ]
