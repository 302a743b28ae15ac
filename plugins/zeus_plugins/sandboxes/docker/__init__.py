"""Registers the sandbox component `docker`."""

from __future__ import annotations

from zeus_runtime.plugin import Component, hookimpl


@hookimpl
def register_sandboxes() -> list[Component]:
    """Registers `docker`."""
    return [
        Component(
            "docker",
            create="zeus_plugins.sandboxes.docker.backend:create",
            options="zeus_plugins.sandboxes.docker.options:Options",
            summary="Runs each program in a container, with the docker or podman command.",
        )
    ]
