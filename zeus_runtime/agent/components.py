"""Components as a config names them: their options typed, ready to be created."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from zeus_runtime.config import ConfigError
from zeus_runtime.frozen import dataclass

if TYPE_CHECKING:
    from zeus_runtime.agent.build import Build
    from zeus_runtime.agent.checked import Checked
    from zeus_runtime.config import Ref
    from zeus_runtime.config.nodes import Path
    from zeus_runtime.plugins import Kind, Plugin, Registered


@dataclass(frozen=True)
class PlannedComponent:
    """One component as it will be created.

    Args:
        kind: what it is.
        name: its name in YAML.
        path: where in the config it stands.
        options: its options as JSON, defaults filled in; secrets do not print.
        plugin: who brings it.
        registered: the component itself.
        value: the typed options.
    """

    kind: Kind
    name: str
    path: Path
    options: Mapping[str, Any]
    plugin: Plugin
    registered: Registered = field(repr=False)
    value: Any = field(repr=False, default=None)

    def create(self, build: Build) -> Any:
        """Call the component's ``create``."""
        from zeus_runtime.plugins import load_create

        return load_create(self.registered)(self.value, build)


def planned_component(checked: Checked, kind: Kind, ref: Ref, path: Path) -> PlannedComponent:
    """The component that ``ref`` at ``path`` names, with its options typed and defaults filled in."""
    from zeus_runtime.config.construct import BuildError, build
    from zeus_runtime.plugins import load_options

    registered = checked.registry.get(kind, ref.name)
    options_type = load_options(registered)
    if options_type is None:
        return PlannedComponent(kind, ref.name, path, {}, registered.plugin, registered)
    try:
        value = build(options_type, dict(ref.options))
    except BuildError as error:
        where = (*path, ref.name, *error.path)
        raise ConfigError([checked.diagnostic("wrong-value", error.message, where)]) from None
    shown = checked.document.redactor.json(as_json(value))
    return PlannedComponent(kind, ref.name, path, shown, registered.plugin, registered, value)


def as_json(value: Any) -> Any:
    """Typed values as JSON; what is none of it, as its text."""
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: as_json(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): as_json(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [as_json(each) for each in value]
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def planned_components(
    checked: Checked, kind: Kind, refs: Sequence[Ref], key: str
) -> tuple[PlannedComponent, ...]:
    """Those that the list under ``key`` names, in its order."""
    return tuple(planned_component(checked, kind, ref, (key, index)) for index, ref in enumerate(refs))
