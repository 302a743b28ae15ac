"""The sandbox component `docker`, as Zeus finds it."""

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
            summary="Programs in a container each, through the docker or podman command.",
        )
    ]
