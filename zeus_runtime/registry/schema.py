"""The JSON Schema of the installed components, without importing the Options of bundled ones.

The committed ``schemas/zeus.schema.json`` is composed from the core and the bundled components. If exactly those are
installed, it is the schema. Otherwise the schema is composed again: bundled options are taken out of the file, and only
the Options of other plugins are imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from zeus_runtime.errors import MissingError
from zeus_runtime.registry.component import NOT_IN_CONFIGS, Kind
from zeus_runtime.registry.home import bundled_home
from zeus_runtime.registry.plugin import PluginProblem
from zeus_runtime.registry.reference import options_schema
from zeus_runtime.registry.registry import Registered, Registry

_RESTORE = "reinstall zeus-runtime; in a checkout: zeus schema --write"


class InstalledSchema(NamedTuple):
    """The composed schema, and the components whose options could not be read."""

    schema: Mapping[str, Any]
    problems: tuple[PluginProblem, ...]


class SchemaEntry(NamedTuple):
    """A component in the form that ``zeus_runtime.config.compose`` takes."""

    kind: Kind
    name: str
    summary: str
    options_schema: Mapping[str, Any] | None
    aliases: tuple[str, ...] = ()


def schema_file() -> Path:
    """The path of the committed schema."""
    return bundled_home() / "schemas" / "zeus.schema.json"


def bundled_schema(registry: Registry) -> dict[str, Any]:
    """The schema of the core and the bundled components, made from their Options, as the committed file must have it.

    Raises:
        MissingError: a bundled plugin is blocked or failed, so the file would lack it; or its Options cannot be read.
    """
    from zeus_runtime.config.schema.composed import compose, core_schema

    missing = [plugin for plugin in registry.plugins if plugin.is_bundled and plugin.status != "loaded"]
    if missing:
        raise MissingError(
            f"the schema needs every bundled plugin; {missing[0]} is {missing[0].status}: {missing[0].reason}",
            remedy="unset ZEUS_LOAD_PLUGINS and ZEUS_DISABLE_PLUGINS",
        )
    own = [registered for registered in _in_configs(registry) if registered.plugin.is_bundled]
    return compose(core_schema(), [_entry(registered, options_schema(registered)) for registered in own])


def installed_schema(registry: Registry, *, shipped: Mapping[str, Any] | None = None) -> InstalledSchema:
    """The schema of the core and every usable component of the registry.

    A component whose Options cannot be imported accepts any options in the schema and is listed in ``problems``; a run
    that uses it ends with that error.

    Args:
        registry: the installed components.
        shipped: the committed schema; None to read it.

    Raises:
        MissingError: the committed schema is missing or is not JSON.
    """
    shipped = read_schema(schema_file()) if shipped is None else shipped
    described = _described(shipped)
    components = _in_configs(registry)
    # The count too: with a bundled plugin that is blocked, the shipped schema would allow its components.
    if all(_is_shipped(registered, described) for registered in components) and len(components) == len(
        described
    ):
        return InstalledSchema(shipped, ())

    from zeus_runtime.config.schema.composed import compose, core_schema

    entries: list[SchemaEntry] = []
    problems: list[PluginProblem] = []
    for registered in components:
        options: dict[str, Any] | None
        if _is_shipped(registered, described):
            options = shipped_options(shipped, registered.kind, registered.name)
        else:
            try:
                options = options_schema(registered)
            except MissingError as error:
                options = {"type": "object"}
                remedy = error.remedy or registered.plugin.remedy
                problems.append(PluginProblem("plugin-options", error.message, remedy, registered.plugin))
        entries.append(_entry(registered, options))
    return InstalledSchema(compose(core_schema(), entries), tuple(problems))


def _in_configs(registry: Registry) -> list[Registered]:
    """The components that a config can name."""
    return [each for each in registry.all() if each.kind not in NOT_IN_CONFIGS]


def read_schema(path: Path) -> Mapping[str, Any]:
    """A schema from its file.

    Raises:
        MissingError: the file is missing or is not a JSON object.
    """
    from json import loads

    try:
        schema = loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise MissingError(
            f"the configuration's schema cannot be read: {path}: {error}", remedy=_RESTORE
        ) from error
    if not isinstance(schema, dict):
        raise MissingError(f"{path} is not a JSON object", remedy=_RESTORE)
    return schema


def shipped_options(shipped: Mapping[str, Any], kind: Kind, name: str) -> dict[str, Any]:
    """A component's options schema as it was before ``compose`` put it into ``shipped``.

    Raises:
        KeyError: ``shipped`` has no such component.
    """
    own = f"{kind}.{name}"
    definitions = shipped["$defs"]
    schema: dict[str, Any] = _taken_out(definitions[own], own, definitions)
    inner = {
        key.removeprefix(f"{own}."): _taken_out(part, own, definitions)
        for key, part in definitions.items()
        if key.startswith(f"{own}.")
    }
    return {**schema, "$defs": inner} if inner else schema


def _taken_out(schema: Any, own: str, definitions: Mapping[str, Any]) -> Any:
    from zeus_runtime.config.schema.types import PLAIN, REF

    if isinstance(schema, list):
        return [_taken_out(part, own, definitions) for part in schema]
    if not isinstance(schema, dict):
        return schema
    pointer = schema.get("$ref")
    # `compose` turned the kind of a Ref into this pointer; the reverse of `_with_refs` there.
    if isinstance(pointer, str) and pointer.startswith("#/$defs/ref."):
        kind = pointer.removeprefix("#/$defs/ref.")
        plain = definitions[f"ref.{kind}"].get(PLAIN)
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        return {REF: kind, **({PLAIN: plain} if plain else {}), **beside}
    if isinstance(pointer, str) and pointer.startswith(f"#/$defs/{own}."):
        # The reverse of `_define` there, which moves a component's own definitions below its name.
        return {**schema, "$ref": f"#/$defs/{pointer.removeprefix(f'#/$defs/{own}.')}"}
    return {key: _taken_out(part, own, definitions) for key, part in schema.items()}


def _described(shipped: Mapping[str, Any]) -> frozenset[str]:
    """The components in a composed schema, as ``kind.name``."""
    return frozenset(
        key for key in shipped.get("$defs", {}) if key.count(".") == 1 and not key.startswith("ref.")
    )


def _is_shipped(registered: Registered, described: frozenset[str]) -> bool:
    return registered.plugin.is_bundled and f"{registered.kind}.{registered.name}" in described


def _entry(registered: Registered, options: Mapping[str, Any] | None) -> SchemaEntry:
    """The entry; the full name is accepted besides the bare one, so that a config can use it before names collide."""
    aliases = () if registered.plugin.is_bundled or not registered.is_meant else (registered.full_name,)
    return SchemaEntry(registered.kind, registered.name, registered.summary, options, aliases)
