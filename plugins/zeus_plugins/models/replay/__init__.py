"""Registers the model component `replay`."""

from __future__ import annotations

from zeus_runtime.plugin import Component, hookimpl


@hookimpl
def register_models() -> list[Component]:
    """Registers `replay`."""
    return [
        Component(
            "replay",
            create="zeus_plugins.models.replay.model:create",
            options="zeus_plugins.models.replay.options:Options",
            summary="Replays a recorded run, without a network.",
        )
    ]
