"""Registers the sandbox component `ssh`."""

from __future__ import annotations

from zeus_runtime.plugin import Component, hookimpl


@hookimpl
def register_sandboxes() -> list[Component]:
    """Registers `ssh`."""
    return [
        Component(
            "ssh",
            create="zeus_plugins.sandboxes.ssh.backend:create",
            options="zeus_plugins.sandboxes.ssh.options:Options",
            summary="Runs programs on another machine over SSH, isolated there with bubblewrap.",
        )
    ]
