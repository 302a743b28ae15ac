"""A quick yes for values that fit their schema: a sound config never pays for jsonschema's import (0.15 s CPU).

``fits`` knows the keywords this project's schemas use and says yes only for what jsonschema would accept too (a
property test holds them together). No, or not sure, means: ask jsonschema, which also explains.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from zeus_runtime.config.schema.walk import resolve, type_name


class _UnsureError(Exception):
    """A keyword is not known here."""


def fits(schema: Mapping[str, Any], value: Any) -> bool:
    """Whether ``value`` surely fits ``schema``; False also where this module cannot tell.

    Args:
        schema: draft 2020-12, references only into itself.
        value: JSON.
    """
    try:
        return _fits(schema, value, schema)
    except (_UnsureError, KeyError, re.error, RecursionError):
        return False


def _fits(schema: Any, value: Any, root: Mapping[str, Any]) -> bool:
    if isinstance(schema, bool):
        return schema
    # Since draft 2019-09, keywords beside a `$ref` count too.
    if "$ref" in schema:
        beside = {key: part for key, part in schema.items() if key != "$ref"}
        return _fits(resolve({"$ref": schema["$ref"]}, root), value, root) and _fits(beside, value, root)
    for keyword, wanted in schema.items():
        if keyword in _SILENT or keyword.startswith("x-"):
            continue
        check = _CHECKS.get(keyword)
        # Within the schema, an `$id` would change the meaning of each `$ref` below it.
        if check is None or (keyword in ("$id", "$schema") and schema is not root):
            raise _UnsureError(keyword)
        if not check(schema, wanted, value, root):
            return False
    return True


def _type(schema: Any, wanted: Any, value: Any, root: Any) -> bool:
    name = type_name(value)
    names = [wanted] if isinstance(wanted, str) else wanted
    if name in names or (name == "integer" and "number" in names):
        return True
    # JSON Schema counts 5.0 as an integer.
    return name == "number" and "integer" in names and value.is_integer()


def _same(one: Any, other: Any) -> bool:
    # To JSON Schema, true is not 1.
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    # Python's `==` takes true for 1 in them.
    if isinstance(one, dict | list) or isinstance(other, dict | list):
        raise _UnsureError
    return bool(one == other)


def _properties(schema: Any, wanted: Any, value: Any, root: Any) -> bool:
    return not isinstance(value, dict) or all(
        _fits(part, value[key], root) for key, part in wanted.items() if key in value
    )


def _patterns(schema: Any, wanted: Any, value: Any, root: Any) -> bool:
    return not isinstance(value, dict) or all(
        _fits(part, item, root)
        for pattern, part in wanted.items()
        for key, item in value.items()
        if re.search(pattern, key)
    )


def _additional(schema: Any, wanted: Any, value: Any, root: Any) -> bool:
    if not isinstance(value, dict):
        return True
    named = schema.get("properties", {})
    patterns = schema.get("patternProperties", {})
    return all(
        _fits(wanted, item, root)
        for key, item in value.items()
        if key not in named and not any(re.search(pattern, key) for pattern in patterns)
    )


def _if(schema: Any, wanted: Any, value: Any, root: Any) -> bool:
    branch = "then" if _fits(wanted, value, root) else "else"
    return branch not in schema or _fits(schema[branch], value, root)


def _number(compare: Callable[[Any, Any], bool]) -> Callable[..., bool]:
    def check(schema: Any, wanted: Any, value: Any, root: Any) -> bool:
        return isinstance(value, bool) or not isinstance(value, int | float) or compare(value, wanted)

    return check


def _size(kind: type[Any], compare: Callable[[int, int], bool]) -> Callable[..., bool]:
    def check(schema: Any, wanted: Any, value: Any, root: Any) -> bool:
        return not isinstance(value, kind) or compare(len(value), wanted)

    return check


_SILENT: Final = frozenset(
    {
        "title",
        "description",
        "default",
        "examples",
        "deprecated",
        "readOnly",
        "writeOnly",
        "format",
        "$comment",
    }
    | {"$defs", "then", "else"}
)
_CHECKS: Final[Mapping[str, Callable[..., bool]]] = {
    "$id": lambda schema, wanted, value, root: True,
    "$schema": lambda schema, wanted, value, root: True,
    "type": _type,
    "const": lambda schema, wanted, value, root: _same(wanted, value),
    "enum": lambda schema, wanted, value, root: any(_same(choice, value) for choice in wanted),
    "properties": _properties,
    "patternProperties": _patterns,
    "additionalProperties": _additional,
    "propertyNames": lambda schema, wanted, value, root: (
        not isinstance(value, dict) or all(_fits(wanted, key, root) for key in value)
    ),
    "required": lambda schema, wanted, value, root: (
        not isinstance(value, dict) or all(key in value for key in wanted)
    ),
    "items": lambda schema, wanted, value, root: (
        not isinstance(value, list)
        or all(_fits(wanted, item, root) for item in value[len(schema.get("prefixItems", ())) :])
    ),
    "prefixItems": lambda schema, wanted, value, root: (
        not isinstance(value, list)
        or all(_fits(part, item, root) for part, item in zip(wanted, value, strict=False))
    ),
    "anyOf": lambda schema, wanted, value, root: any(_fits(part, value, root) for part in wanted),
    "allOf": lambda schema, wanted, value, root: all(_fits(part, value, root) for part in wanted),
    "if": _if,
    "minimum": _number(lambda value, limit: value >= limit),
    "maximum": _number(lambda value, limit: value <= limit),
    "exclusiveMinimum": _number(lambda value, limit: value > limit),
    "exclusiveMaximum": _number(lambda value, limit: value < limit),
    "minLength": _size(str, lambda length, limit: length >= limit),
    "maxLength": _size(str, lambda length, limit: length <= limit),
    "minItems": _size(list, lambda length, limit: length >= limit),
    "maxItems": _size(list, lambda length, limit: length <= limit),
    "minProperties": _size(dict, lambda length, limit: length >= limit),
    "maxProperties": _size(dict, lambda length, limit: length <= limit),
    "pattern": lambda schema, wanted, value, root: (
        not isinstance(value, str) or bool(re.search(wanted, value))
    ),
}
