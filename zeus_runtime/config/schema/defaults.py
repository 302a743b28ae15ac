"""What a schema says of arguments that are not given, and of texts that may be more."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from zeus_runtime.config.schema.walk import Schema, at, branches, types
from zeus_runtime.strict_json import keys_in

_MOST_LEVELS: Final = 5
"""Of defaults within defaults: a schema may lead back to itself."""
_UNCLEAR: Final[Mapping[str, Any]] = {}
_READ: Final = frozenset(
    "properties patternProperties additionalProperties prefixItems anyOf oneOf allOf".split()  # `walk` follows them
    + "$defs definitions $schema $comment $vocabulary $anchor $dynamicAnchor $recursiveAnchor".split()
    + "default enum const examples example not".split()
)
"""Keywords whose defaults, if there are any, are known. Others count if a default or a reference is in them."""


def fill_defaults(
    schema: Schema, value: Any, *, unclear: bool = False, computed: Collection[str] = ()
) -> Any:
    """``value`` with the schema's defaults for the keys that its objects do not have, at every level.

    Where branches of the schema have several defaults for one key, it is their list: nobody can tell which one holds.

    Args:
        schema: JSON Schema, local ``$ref`` followed.
        value: JSON.
        unclear: whether a missing key is an object if a keyword that is not read here, such as ``then``, may have its
            default.
        computed: with ``unclear``, further keys that are an object where they are missing.
    """
    places = branches(schema, schema)
    # Some servers take the default of all arguments for those that are missing.
    own = chain.from_iterable(keys_in(each.get("default")) for each in places)
    return _filled(places, value, schema, _MOST_LEVELS, frozenset((*own, *computed)) if unclear else None)


def _filled(
    places: Sequence[Schema], value: Any, root: Schema, left: int, unread: frozenset[str] | None
) -> Any:
    """Fill ``value``.

    Args:
        unread: the keys whose defaults are not read, of this object and of those in it; None if they do not matter.
    """
    if unread is not None and isinstance(value, list | Mapping):
        unread |= _unread(places, root)
    if isinstance(value, list):
        return [
            _filled(at(places, index, root), item, root, left, unread) for index, item in enumerate(value)
        ]
    if not isinstance(value, Mapping):
        return value
    filled = {key: _filled(at(places, key, root), item, root, left, unread) for key, item in value.items()}
    if left:
        for key in dict.fromkeys(key for place in places for key in place.get("properties", {})):
            if key in filled:
                continue
            entries = at(places, key, root)
            defaults: list[Any] = []
            for entry in entries:
                if "default" in entry and entry["default"] not in defaults:
                    defaults.append(entry["default"])
            found = [_filled(entries, each, root, left - 1, unread) for each in defaults]
            if unread is not None and ((names := _unread(entries, root)) or key in unread):
                found.append(dict.fromkeys(names, _UNCLEAR))
            if found:
                filled[key] = found[0] if len(found) == 1 else found
    return {**dict.fromkeys(unread or (), _UNCLEAR), **filled}


def _unread(places: Sequence[Schema], root: Schema) -> frozenset[str]:
    """The keys that may have a default by a keyword that is not read."""
    found: set[str] = set()
    for keyword, part in chain.from_iterable(place.items() for place in places):
        # A list as `items` is the old form of `prefixItems`. An inner `$id` makes each `$ref` in it mean another.
        is_read = {"items": isinstance(part, Mapping), "$id": part == root.get("$id")}
        if is_read.get(keyword, keyword in _READ):
            continue
        keys = set(keys_in(part))
        if keyword.startswith("$") or any(key.startswith("$") for key in keys):
            keys = set(keys_in(root))
        if "default" in keys:
            found |= keys
    return frozenset(found)


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
