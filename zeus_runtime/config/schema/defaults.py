"""What a schema says of arguments that are not given, and of those that are only text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


def is_plain_text(schema: Schema, name: str) -> bool:
    """Whether an argument is text or nothing, so that no library decodes it."""
    allowed = types(at(branches(schema, schema), name, schema))
    return bool(allowed) and allowed <= {"string", "null"}
