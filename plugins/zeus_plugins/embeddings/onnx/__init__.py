"""Registers the embedding component `onnx`."""

from __future__ import annotations

from zeus_runtime.plugin import Component, hookimpl


@hookimpl
def register_embeddings() -> list[Component]:
    """Registers `onnx`."""
    return [
        Component(
            "onnx",
            create="zeus_plugins.embeddings.onnx.embedder:create",
            options="zeus_plugins.embeddings.onnx.options:Options",
            summary="A sentence encoder on this machine, as an ONNX file (MiniLM, E5, BGE, ...).",
        )
    ]
