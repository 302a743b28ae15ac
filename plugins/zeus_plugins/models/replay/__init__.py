"""The model component `replay`, as Zeus finds it."""

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
            summary="Plays a recorded run back, without a network.",
        )
    ]
