"""Registers the embedding component `litellm`.

The package and the component have different names: plugin names are unique, and the plugin `litellm` has the models.
"""

from __future__ import annotations

from zeus_runtime.plugin import Component, hookimpl


@hookimpl
def register_embeddings() -> list[Component]:
    """Registers `litellm`."""
    return [
        Component(
            "litellm",
            create="zeus_plugins.embeddings.litellm_embeddings.embedder:create",
            options="zeus_plugins.embeddings.litellm_embeddings.options:Options",
            summary="Any embedding model that litellm supports, by its name.",
        )
    ]
