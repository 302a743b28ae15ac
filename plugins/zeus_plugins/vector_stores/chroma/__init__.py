"""Registers the vector store component `chroma`."""

from __future__ import annotations

from zeus_runtime.plugin import Component, hookimpl


@hookimpl
def register_vector_stores() -> list[Component]:
    """Registers `chroma`."""
    return [
        Component(
            "chroma",
            create="zeus_plugins.vector_stores.chroma.store:create",
            options="zeus_plugins.vector_stores.chroma.options:Options",
            summary="Vectors in a ChromaDB folder, for one process at a time; can be rebuilt from the memories.",
        )
    ]
