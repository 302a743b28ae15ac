"""The registration of the tool component `knowledge`."""

from __future__ import annotations

from zeus_runtime.plugin import Component, hookimpl


@hookimpl
def register_tools() -> list[Component]:
    """Register `knowledge`."""
    return [
        Component(
            "knowledge",
            create="zeus_plugins.tools.knowledge.tools:create",
            options="zeus_plugins.tools.knowledge.options:Options",
            summary="Search the knowledge bases linked by the config, and read documents of the workspace.",
            gives={"rag": "bases under `knowledge:`"},
        )
    ]
