"""The model component `litellm`, as Zeus finds it."""

from __future__ import annotations

from zeus_runtime.plugin import Component, hookimpl


@hookimpl
def register_models() -> list[Component]:
    """Registers `litellm`."""
    return [
        Component(
            "litellm",
            create="zeus_plugins.models.litellm.model:create",
            options="zeus_plugins.models.litellm.options:Options",
            summary="Any model litellm can reach, by its name.",
        )
    ]
