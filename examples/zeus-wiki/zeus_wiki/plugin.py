"""What the plugin registers; names only, so that reading a config stays fast."""

from __future__ import annotations

from pathlib import Path

from zeus_runtime.plugin import Component, hookimpl


@hookimpl
def register_tools() -> list[Component]:
    """Registers `wiki`, which gives the model `wiki_search`."""
    return [
        Component(
            "wiki",
            create="zeus_wiki.search:create",
            options="zeus_wiki.search:Options",
            summary="Search in a small wiki that comes with the plugin: wiki_search.",
        )
    ]


@hookimpl
def register_middlewares() -> list[Component]:
    """Registers `glossary`."""
    return [
        Component(
            "glossary",
            create="zeus_wiki.glossary:Glossary",
            options="zeus_wiki.glossary:Options",
            summary="Explains the house's own words where they are used.",
        )
    ]


@hookimpl
def register_homes() -> list[Path]:
    """The Home with the profile of `openai/harbour-scholar-8k`, SOUL.md and the preset `harbour`."""
    return [Path(__file__).parent / "home"]
