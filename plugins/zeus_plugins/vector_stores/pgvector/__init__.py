"""The vector store `pgvector`, as Zeus finds it."""

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
            summary="Vectors beside the memories in the same PostgreSQL database; exact, or HNSW where many.",
        )
    ]
