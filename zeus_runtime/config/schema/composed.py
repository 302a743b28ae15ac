"""The one JSON Schema of a config: the core's, and the options of every installed component."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from zeus_runtime.config.schema.signatures import schema_of
from zeus_runtime.config.schema.types import PLAIN, REF

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


class Described(Protocol):
    """What ``compose`` needs to know of a component.

    ``options_schema`` is the JSON Schema of its options, None if it takes none. ``aliases`` are further names.
    """

    @property
    def kind(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def aliases(self) -> Sequence[str]: ...
    @property
    def summary(self) -> str: ...
    @property
    def options_schema(self) -> Mapping[str, Any] | None: ...


def core_schema() -> dict[str, Any]:
    """The schema of the Config's own keys; its Refs may name anything."""
    from zeus_runtime.config.model import Config

    return schema_of(Config)


def compose(core: Mapping[str, Any], components: Iterable[Described]) -> dict[str, Any]:
    """One schema that validates a whole config and that editors complete from.

    Every Ref becomes a choice of the installed components of its kind, ``$defs/ref.KIND``; a component's options are
    ``$defs/KIND.NAME``. ``x-*`` keys at the top are free; a file that ``extends`` another need not be whole.

    Args:
        core: the schema of the Config (``core_schema()``).
        components: the installed components, in any order; the result does not depend on it.
    """
    listed = sorted(components, key=lambda component: (component.kind, component.name))
    definitions: dict[str, Any] = {}
    for component in listed:
        _define(component, definitions)
    kinds: dict[str, Any] = {}
    composed = _with_refs(dict(core), kinds)
    definitions = {name: _with_refs(schema, kinds) for name, schema in definitions.items()}
    own = {name: _with_refs(schema, kinds) for name, schema in composed.pop("$defs", {}).items()}
    for kind, plain in sorted(kinds.items()):
        definitions[f"ref.{kind}"] = _choice(kind, plain, [entry for entry in listed if entry.kind == kind])
    required = composed.pop("required", [])
    whole = (
        {"if": {"required": ["extends"]}, "then": True, "else": {"required": required}} if required else {}
    )
    properties = {**composed.pop("properties", {}), "extends": _EXTENDS}
    return {
        "$schema": DIALECT,
        "title": "Zeus runtime configuration",
        **composed,
        "properties": properties,
        "patternProperties": {"^x-": True},
        "additionalProperties": False,
        **whole,
        "$defs": {**own, **definitions},
    }


def render(schema: Mapping[str, Any]) -> str:
    """The schema as the text of a committed file: the same for the same schema, newline at the end."""
    from json import dumps

    return dumps(schema, indent=2, ensure_ascii=False) + "\n"


_EXTENDS: Final = {
    "type": ["string", "array", "null"],
    "items": {"type": "string"},
    "description": "A preset's name or a file (or a list of them, later over earlier) that this file is laid over.",
}


def _define(component: Described, definitions: dict[str, Any]) -> None:
    name = _definition(component)
    schema = dict(component.options_schema) if component.options_schema is not None else _NO_OPTIONS
    inner = {part: f"{name}.{part}" for part in schema.get("$defs", {})}
    pointers = {f"#/$defs/{part}": f"#/$defs/{moved}" for part, moved in inner.items()}
    for part, moved in inner.items():
        definitions[moved] = _repointed(schema["$defs"][part], pointers)
    definitions[name] = _repointed({key: value for key, value in schema.items() if key != "$defs"}, pointers)
    if component.summary:
        definitions[name] = {**definitions[name], "description": component.summary}


def _definition(component: Described) -> str:
    """Its place under ``$defs``; a slash would part a JSON pointer."""
    return f"{component.kind}.{component.name.replace('/', '@')}"


_NO_OPTIONS: Final[Mapping[str, Any]] = {"type": "object", "properties": {}, "additionalProperties": False}


def _repointed(schema: Any, pointers: Mapping[str, str]) -> Any:
    if isinstance(schema, Mapping):
        return {
            key: pointers.get(value, value)
            if key == "$ref" and isinstance(value, str)
            else value
            if key in _LITERAL
            else _repointed(value, pointers)
            for key, value in schema.items()
        }
    return [_repointed(part, pointers) for part in schema] if isinstance(schema, list) else schema


# Data within a schema, where a key `$ref` is not a reference.
_LITERAL: Final = frozenset({"default", "const", "enum", "examples"})


def _with_refs(schema: Any, kinds: dict[str, Any]) -> Any:
    """A schema with its Ref places pointing to the choice of their kind; the kinds met are noted."""
    if isinstance(schema, list):
        return [_with_refs(part, kinds) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    kind = schema.get(REF)
    if isinstance(kind, str):
        kinds[kind] = kinds.get(kind) or schema.get(PLAIN)
        beside = {key: value for key, value in schema.items() if key not in (REF, PLAIN, "anyOf")}
        return {"$ref": f"#/$defs/ref.{kind}", **beside}
    return {key: value if key in _LITERAL else _with_refs(value, kinds) for key, value in schema.items()}


def _choice(kind: str, plain: list[str] | None, components: list[Described]) -> dict[str, Any]:
    names = [component.name for component in components]
    arms: list[dict[str, Any]] = []
    # The name of a model may be any text, so no other component can be chosen by its plain name here.
    if plain is not None and plain[0] in names:
        arms.append(
            {"type": "string", "minLength": 1, "description": f"The {plain[1]} that {plain[0]} runs."}
        )
    elif plain is None:
        arms += [
            _named(component, name)
            for component in components
            if not _requires(component)
            for name in (component.name, *component.aliases)
        ]
    options = {
        name: _options(component) for component in components for name in (component.name, *component.aliases)
    }
    arms.append(
        {
            "type": "object",
            "properties": options,
            "minProperties": 1,
            "maxProperties": 1,
            "additionalProperties": False,
        }
    )
    return {REF: kind, **({PLAIN: plain} if plain else {}), "anyOf": arms}


def _named(component: Described, name: str) -> dict[str, Any]:
    described = {"description": component.summary} if component.summary else {}
    return {"type": "string", "const": name, **described}


def _options(component: Described) -> dict[str, Any]:
    """Options, or nothing (``- history:``) where none are required."""
    options = {"$ref": f"#/$defs/{_definition(component)}"}
    return options if _requires(component) else {"anyOf": [options, {"type": "null"}]}


def _requires(component: Described) -> bool:
    return bool(component.options_schema and component.options_schema.get("required"))
