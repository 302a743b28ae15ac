"""Every leaf of the published schema, as a dotted path with its default: all that a YAML file can set."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

SCHEMA: Final = Path(__file__).parents[2] / "schemas/zeus.schema.json"
REQUIRED: Final = object()
"""The default of a key that has none."""
ANY_NAME: Final = "*"

Keys = tuple[str, ...]


@cache
def schema_leaves() -> Mapping[str, Any]:
    """The core's keys as ``limits.max_steps`` and components' options as ``tool:web.search``, with their defaults.

    ``*`` stands for a name of the user's. A mapping of the user's names to plain values is one leaf, and so is a
    reference to a component: the component's options are leaves of their own.
    """
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    definitions = schema["$defs"]
    found = {".".join(path): default for path, default in _leaves(schema, definitions, ())}
    for name, definition in definitions.items():
        kind, _, component = name.partition(".")
        if kind != "ref":
            options = _leaves(definition, definitions, ())
            found |= {f"{kind}:{component}.{'.'.join(path)}": default for path, default in options if path}
    return MappingProxyType(found)


def _leaves(
    node: Mapping[str, Any], definitions: Mapping[str, Any], path: Keys
) -> Iterator[tuple[Keys, Any]]:
    inner = dict(_below(node, definitions, path))
    is_own = not inner or set(inner) == {(*path, ANY_NAME)} or path in inner
    if is_own:
        yield path, node.get("default", REQUIRED)
    if set(inner) != {(*path, ANY_NAME)}:
        yield from ((each, default) for each, default in inner.items() if each != path)


def _below(node: Mapping[str, Any], definitions: Mapping[str, Any], path: Keys) -> Iterator[tuple[Keys, Any]]:
    """The leaves inside: of an object's properties, of what a mapping or a list holds, of each alternative."""
    name = node.get("$ref", "").rpartition("/")[2]
    if name and not name.startswith("ref."):
        yield from _leaves(definitions[name], definitions, path)
    for key, each in node.get("properties", {}).items():
        yield from _leaves(each, definitions, (*path, key))
    for alternative in (*node.get("anyOf", ()), *node.get("oneOf", ())):
        if alternative.get("type") != "null":
            yield from _leaves(alternative, definitions, path)
    for held in (node.get("additionalProperties"), node.get("items")):
        if isinstance(held, dict) and "properties" not in node:
            names = node.get("propertyNames", {}).get("enum", (ANY_NAME,))
            for each in names:
                yield from _leaves(held, definitions, (*path, each))
