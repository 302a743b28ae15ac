"""What a JSON Schema says of the parts of a value: which types and keywords may hold at a place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from zeus_runtime.config.yaml.tree import Node, Path, walk

Schema: TypeAlias = Mapping[str, Any]

ALL_TYPES: Final = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
_COMBINED: Final = ("anyOf", "oneOf", "allOf")


ANYTHING: Final[Schema] = {}
NOTHING: Final[Schema] = {"not": {}}


def as_mapping(schema: Any) -> Schema:
    """A schema as a mapping: ``true`` and ``false`` are schemas too, for any value and for none."""
    if isinstance(schema, Mapping):
        return schema
    return NOTHING if schema is False else ANYTHING


def resolve(given: Any, root: Schema) -> Schema:
    """The schema a local ``$ref`` stands for, its own keywords beside it kept. Only JSON pointers are followed.

    Raises:
        KeyError: the reference names nothing in ``root``, or leads back to itself.
    """
    followed: set[str] = set()
    schema = as_mapping(given)
    while isinstance(pointer := schema.get("$ref"), str) and (pointer == "#" or pointer.startswith("#/")):
        if pointer in followed:
            raise KeyError(pointer)
        followed.add(pointer)
        target: Any = root
        for step in pointer.removeprefix("#").split("/")[1:]:
            target = target[step.replace("~1", "/").replace("~0", "~")]
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        schema = {**as_mapping(target), **beside}
    return schema


def branches(schema: Any, root: Schema) -> list[Schema]:
    """The schemas that together describe one place: references followed, combinations laid side by side.

    Callers must not change the list: it is kept for the same question about the same ``root``.
    """
    found, _ = _known(root).of(schema)
    return found


def types(places: Sequence[Schema]) -> frozenset[str]:
    """The JSON types that are allowed at a place; ``number`` includes ``integer``."""
    named: set[str] = set()
    for schema in places:
        stated = schema.get("type")
        if isinstance(stated, str):
            named.add(stated)
        elif isinstance(stated, Sequence):
            named.update(stated)
        elif "const" in schema:
            named.add(type_name(schema["const"]))
        elif "enum" in schema:
            named.update(type_name(value) for value in schema["enum"])
        # A schema without a type allows every type; one with branches says it in them, and they are among the places.
        elif not any(key in schema for key in (*_COMBINED, "not")):
            return ALL_TYPES
    return frozenset(named)


def at(places: Sequence[Schema], step: str | int, root: Schema) -> list[Schema]:
    """The schemas for one entry of the value that ``places`` describe; see ``branches``."""
    return _known(root).entry(places, step)


def walk_with(node: Node, schema: Schema) -> Iterator[tuple[Path, Node, list[Schema]]]:
    """Every node with its path and the schemas that describe its place, parents first."""
    known = _known(schema)
    described: dict[Path, list[Schema]] = {}
    for path, part in walk(node):
        places = known.entry(described[path[:-1]], path[-1]) if path else branches(schema, schema)
        if part.is_map or part.is_list:
            described[path] = places
        yield path, part, places


def type_name(value: Any) -> str:
    """The JSON type of a value: ``integer`` before ``number``."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "object" if isinstance(value, Mapping) else "array"


class _Places:
    """The places of one root schema that were asked for before.

    A config is read a dozen times by its schema, layer by layer, and each place of it resolves the same references.
    Schemas are told apart by identity; each is kept, so no other object can get its identity.
    """

    def __init__(self, root: Schema) -> None:
        self.root = root
        self._branches: dict[int, tuple[list[Schema], Any]] = {}
        self._entries: dict[tuple[str | int, ...], tuple[list[Schema], Sequence[Schema]]] = {}

    def of(self, schema: Any) -> tuple[list[Schema], Any]:
        known = self._branches.get(id(schema))
        if known is None:
            found: list[Schema] = []
            _collect(schema, self.root, found, ())
            known = self._branches[id(schema)] = found, schema
        return known

    def entry(self, places: Sequence[Schema], step: str | int) -> list[Schema]:
        key = (step, *map(id, places))
        known = self._entries.get(key)
        if known is None:
            # A mapping with free keys would add an entry for each key that any config has.
            if len(self._entries) >= _MOST_ENTRIES:
                self._entries.clear()
            found: list[Schema] = []
            for schema in places:
                for part in _entries(schema, step):
                    _collect(part, self.root, found, ())
            known = self._entries[key] = found, tuple(places)
        return known[0]


_MOST_ENTRIES: Final = 50_000
_MOST_ROOTS: Final = 4
_roots: list[_Places] = []


def _known(root: Schema) -> _Places:
    for each in _roots:
        if each.root is root:
            return each
    places = _Places(root)
    _roots.insert(0, places)
    del _roots[_MOST_ROOTS:]
    return places


def _collect(schema: Any, root: Schema, found: list[Schema], above: tuple[str, ...]) -> None:
    # What no value fits describes nothing.
    if not isinstance(schema, Mapping) and schema is not True:
        return
    schema = as_mapping(schema)
    pointer = schema.get("$ref")
    if isinstance(pointer, str):
        # A config's `agents` may have agents: the reference leads back to a schema that is collected already.
        if pointer in above:
            return
        above = (*above, pointer)
        schema = resolve(schema, root)
    found.append(schema)
    for combined in _COMBINED:
        for part in schema.get(combined, ()):
            _collect(part, root, found, above)


def _entries(schema: Schema, step: str | int) -> Iterator[Any]:
    if isinstance(step, int):
        prefix = schema.get("prefixItems", ())
        if step < len(prefix):
            yield prefix[step]
        elif "items" in schema:
            yield schema["items"]
        return
    named = schema.get("properties", {})
    matched = step in named
    if matched:
        yield named[step]
    if patterns := schema.get("patternProperties"):
        import re

        for pattern, part in patterns.items():
            if re.search(pattern, step):
                matched = True
                yield part
    if not matched and "additionalProperties" in schema:
        yield schema["additionalProperties"]
