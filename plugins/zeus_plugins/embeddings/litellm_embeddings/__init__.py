"""The embedding component `litellm`, as Zeus finds it.

The package has another name than the component: plugins have one namespace, and `litellm` is the models'.
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
            summary="Any embedding model litellm can reach, by its name.",
        )
    ]
