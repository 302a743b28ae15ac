"""Registers the model component `litellm`."""

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
            summary="Any model that litellm supports, by its name.",
        )
    ]
