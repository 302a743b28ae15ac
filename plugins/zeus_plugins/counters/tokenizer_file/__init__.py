"""The counter component `tokenizer_file`, as Zeus finds it."""

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
            summary="Counts by the model's own tokenizer.json, for models that you host.",
        )
    ]
