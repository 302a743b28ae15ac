"""How a YAML names a plugin's Home, ``plugin:NAME``, and a preset in one, ``plugin:NAME/PRESET``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from zeus_runtime.config.yaml.tree import Node

PREFIX: Final = "plugin:"


class PluginHome(NamedTuple):
    """A Home that an installed plugin registers.

    Args:
        names: the plugin's names, the shortest first.
        folder: the Home.
    """

    names: tuple[str, ...]
    folder: Path

    def file(self, preset: str) -> Path:
        """Where the Home would have a preset."""
        return self.folder / "configs" / f"{preset}.yaml"

    def written(self, preset: str) -> str:
        """How a YAML names a preset of this Home, whatever else is installed."""
        return f"{PREFIX}{self.names[0]}/{preset}"


PluginHomes: TypeAlias = Callable[[Any], Sequence[PluginHome]]
"""The Homes of the installed plugins that may load under the config's ``plugins``, as JSON. It imports them."""


def plugin_named(home: str) -> str | None:
    """The plugin that an entry of ``homes`` names; None for a path."""
    return home.removeprefix(PREFIX) if home.startswith(PREFIX) else None


def split_preset(name: str) -> tuple[str, str]:
    """The plugin that a preset's name says, empty for none, and the bare name."""
    if not name.startswith(PREFIX):
        return "", name
    plugin, _, preset = name.removeprefix(PREFIX).rpartition("/")
    return plugin, preset


def presets_of(homes: Iterable[PluginHome], taken: Iterable[str] = ()) -> list[str]:
    """The presets of plugins' Homes, each by the shortest name that finds it, sorted.

    Args:
        homes: the Homes.
        taken: names of presets in nearer Homes, which the bare name means.
    """
    found = {(home.names, path.stem): home for home in homes for path in home.folder.glob("configs/*.yaml")}
    bare = [*taken, *(preset for _, preset in found)]
    return sorted(
        preset if bare.count(preset) == 1 else home.written(preset)
        for (_, preset), home in found.items()
        if preset != "profiles"
    )


def rules_of(layers: Sequence[Node]) -> Any:
    """``plugins`` of the layers read so far, strongest first; validation reports invalid entries."""
    from zeus_runtime.config.layers.merge import merge
    from zeus_runtime.config.yaml.tree import plain

    said = [each.value["plugins"] for each in layers if each.is_map and "plugins" in each.value]
    if not said:
        return {}
    merged = said[-1]
    for each in reversed(said[:-1]):
        merged = merge(merged, each)
    return plain(merged)
