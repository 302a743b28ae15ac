"""Registers the vector store component `pgvector`."""

from __future__ import annotations

from zeus_runtime.plugin import Component, hookimpl


@hookimpl
def register_vector_stores() -> list[Component]:
    """Registers `pgvector`."""
    return [
        Component(
            "pgvector",
            create="zeus_plugins.vector_stores.pgvector.store:create",
            options="zeus_plugins.vector_stores.pgvector.options:Options",
            summary="Vectors in the memories' PostgreSQL database; exact, or with HNSW if there are many.",
        )
    ]
