"""Registers the middleware component `skills`."""

from __future__ import annotations

from zeus_runtime.plugin import Component, hookimpl


@hookimpl
def register_middlewares() -> list[Component]:
    """Registers `skills`."""
    return [
        Component(
            "skills",
            create="zeus_plugins.middlewares.skills.middleware:create",
            options="zeus_plugins.middlewares.skills.options:Options",
            summary="Lists skills in the prompt and loads them when a task needs them.",
            gives={"skills": "a folder of skills, trusted if it is the project's"},
        )
    ]
