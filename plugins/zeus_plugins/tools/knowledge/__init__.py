"""The toolset `knowledge`, as Zeus finds it."""

from __future__ import annotations

from zeus_runtime.plugin import Component, hookimpl


@hookimpl
def register_tools() -> list[Component]:
    """Registers `knowledge`."""
    return [
        Component(
            "knowledge",
            create="zeus_plugins.tools.knowledge.tools:create",
            options="zeus_plugins.tools.knowledge.options:Options",
            summary="Searches the knowledge bases that the config links, and reads documents of the workspace.",
            gives={"rag": "bases under `knowledge:`"},
        )
    ]
