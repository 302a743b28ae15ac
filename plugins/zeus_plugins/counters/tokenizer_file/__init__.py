"""Registers the counter component `tokenizer_file`."""

from __future__ import annotations

from zeus_runtime.plugin import Component, hookimpl


@hookimpl
def register_counters() -> list[Component]:
    """Registers `tokenizer_file`."""
    return [
        Component(
            "tokenizer_file",
            create="zeus_plugins.counters.tokenizer_file.counter:create",
            options="zeus_plugins.counters.tokenizer_file.options:Options",
            summary="Counts with the model's tokenizer.json, for models that you host.",
        )
    ]
