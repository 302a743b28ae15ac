"""Make a model's arguments fit the schema where only the notation differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from zeus_runtime.config.schema.walk import Schema, at, branches, type_name, types
from zeus_runtime.strict_json import strict_json


def coerce(schema: Schema, value: Any) -> Any:
    """Repair the notation of a value without guessing.

    ``"5"`` for an integer becomes 5, JSON text for a list or object is parsed, and ``null`` for an optional argument is
    left out. Other values that do not fit stay unchanged, so that validation reports them.

    Args:
        schema: JSON Schema, local ``$ref`` followed.
        value: JSON.
    """
    return _coerced(branches(schema, schema), value, schema)


def _coerced(places: Sequence[Schema], value: Any, root: Schema) -> Any:
    allowed = types(places)
    value = _converted(value, allowed)
    if isinstance(value, Mapping):
        required = {key for place in places for key in place.get("required", ())}
        entries = {key: at(places, key, root) for key in value}
        return {
            key: _coerced(entries[key], item, root)
            for key, item in value.items()
            if not (
                item is None and entries[key] and key not in required and "null" not in types(entries[key])
            )
        }
    if isinstance(value, list):
        return [_coerced(at(places, index, root), item, root) for index, item in enumerate(value)]
    return value


def _converted(value: Any, allowed: frozenset[str]) -> Any:
    if not allowed or type_name(value) in allowed:
        return value
    if isinstance(value, float) and value.is_integer() and "integer" in allowed and "number" not in allowed:
        return int(value)
    if isinstance(value, int | float) and not isinstance(value, bool) and allowed <= {"string", "null"}:
        return str(value)
    return _read(value.strip(), allowed, value) if isinstance(value, str) else value


def _read(text: str, allowed: frozenset[str], written: str) -> Any:
    if text.lower() in ("true", "false") and "boolean" in allowed:
        return text.lower() == "true"
    if text.lower() in ("null", "none", "") and "null" in allowed:
        return None
    try:
        value = strict_json(text)
    except ValueError:
        return written
    if isinstance(value, float) and value.is_integer() and "number" not in allowed and "integer" in allowed:
        return int(value)
    if type_name(value) in allowed or (
        isinstance(value, int) and "number" in allowed and not isinstance(value, bool)
    ):
        return value
    return written
