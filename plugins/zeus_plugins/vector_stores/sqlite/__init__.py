"""Registers the vector store component `sqlite`."""

from __future__ import annotations

from zeus_runtime.plugin import Component, hookimpl


@hookimpl
def register_vector_stores() -> list[Component]:
    """Registers `sqlite`."""
    return [
        Component(
            "sqlite",
            create="zeus_plugins.vector_stores.sqlite.store:create",
            summary="Vectors in the memories' SQLite database; exact.",
        )
    ]
