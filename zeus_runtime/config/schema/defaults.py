"""What a schema says of arguments that are not given, and of texts that may be more."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from zeus_runtime.config.schema.walk import Schema, at, branches, types

_MOST_LEVELS: Final = 5
"""Of defaults within defaults: a schema may lead back to itself."""


def fill_defaults(schema: Schema, value: Any) -> Any:
    """``value`` with the schema's defaults for the keys that its objects do not have, at every level.

    Where branches of the schema have several defaults for one key, it is their list: nobody can tell which one holds.

    Args:
        schema: JSON Schema, local ``$ref`` followed.
        value: JSON.
    """
    return _filled(branches(schema, schema), value, schema, _MOST_LEVELS)


def _filled(places: Sequence[Schema], value: Any, root: Schema, left: int) -> Any:
    if isinstance(value, list):
        return [_filled(at(places, index, root), item, root, left) for index, item in enumerate(value)]
    if not isinstance(value, Mapping):
        return value
    filled = {key: _filled(at(places, key, root), item, root, left) for key, item in value.items()}
    if left:
        for key in dict.fromkeys(key for place in places for key in place.get("properties", {})):
            entries = at(places, key, root)
            defaults: list[Any] = []
            for entry in entries:
                if "default" in entry and entry["default"] not in defaults:
                    defaults.append(entry["default"])
            if key not in filled and defaults:
                found = [_filled(entries, each, root, left - 1) for each in defaults]
                filled[key] = found[0] if len(found) == 1 else found
    return filled


def map_texts(schema: Schema, value: Any, read: Callable[[str, str, bool], Any]) -> Any:
    """``value`` with each text in it replaced.

    Args:
        schema: JSON Schema, local ``$ref`` followed.
        value: JSON.
        read: returns the value for a text, the key that has it ("" if none), and whether the schema lets it be text
            or null and nothing else there.
    """

    def mapped(places: Sequence[Schema], part: Any, key: str) -> Any:
        if isinstance(part, Mapping):
            return {name: mapped(at(places, name, schema), each, name) for name, each in part.items()}
        if isinstance(part, list):
            return [mapped(at(places, index, schema), each, key) for index, each in enumerate(part)]
        if not isinstance(part, str):
            return part
        allowed = types(places)
        return read(part, key, bool(allowed) and allowed <= {"string", "null"})

    return mapped(branches(schema, schema), value, "")
