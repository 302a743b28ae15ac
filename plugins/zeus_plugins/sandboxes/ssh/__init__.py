"""The sandbox component `ssh`, as Zeus finds it."""

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
            summary="Programs on another machine, reached over SSH, with bubblewrap's walls around them there.",
        )
    ]
