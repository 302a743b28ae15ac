"""What a pydantic model takes and its JSON Schema does not show: further names of fields, and computed defaults."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, Final

from zeus_runtime.config.schema.walk import Schema, as_mapping, at, branches

_NAMES: Final = "x-zeus-names"
"""All names by which an object takes its fields."""
_SHOWN: Final = "x-zeus-shown-names"
_COMPUTED: Final = "x-zeus-computed"
"""Those of fields whose value nobody knows where a call leaves them out."""
_EMPTY: Final = (list, tuple, dict, set, frozenset, str, int, float, bool)
"""Factories of values that say nothing."""


def second_names(model: Any, value: Any, shown: Collection[str] | None = None) -> Sequence[str]:
    """The keys of ``value``, at any depth, by which ``model`` takes a field that its schema shows by another name.

    An open model (``extra="allow"``) takes a value by such a name instead of the shown one, which rules and people
    look at.

    Args:
        shown: the names of the model's own fields as a caller sees them; None for those of its schema.
    """
    root = _schema_of(model)
    return list(dict.fromkeys(_second(value, branches(root, root), root, shown)))


def computed_names(model: Any) -> frozenset[str]:
    """The names of fields whose value is not known where a call leaves them out, and of all fields in such a value.

    A factory makes the value, or it is no JSON, or the model takes it by the name of another field.
    """
    root = _schema_of(model)
    found: set[str] = set()
    for each in _objects(root, root, set()):
        for name in each.get(_COMPUTED, ()):
            found.add(name)
            inner = each["properties"][name]
            found.update(*(part.get(_NAMES, ()) for part in _objects(inner, root, set())))
    return frozenset(found)


def _second(
    value: Any, places: Sequence[Schema], root: Schema, shown: Collection[str] | None
) -> Iterator[str]:
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _second(item, at(places, index, root), root, None)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if any(
                key in each.get(_NAMES, ()) and key not in (each[_SHOWN] if shown is None else shown)
                for each in places
            ):
                yield key
            yield from _second(item, at(places, key, root), root, None)


def _objects(schema: Any, root: Schema, seen: set[int]) -> Iterator[Schema]:
    """Every object with named fields in a schema, references followed."""
    if isinstance(schema, list | tuple):
        for each in schema:
            yield from _objects(each, root, seen)
    if not isinstance(schema, Mapping) or id(schema) in seen:
        return
    seen.add(id(schema))
    if "$ref" in schema:
        yield from _objects(
            as_mapping(root.get("$defs", {}).get(str(schema["$ref"]).rpartition("/")[2])), root, seen
        )
    if _NAMES in schema:
        yield schema
    for key, inner in schema.items():
        if key not in ("default", "examples", "$defs"):
            yield from _objects(inner, root, seen)


@lru_cache(maxsize=512)
def _schema_of(model: Any) -> Schema:
    found: Schema = model.model_json_schema(schema_generator=_generator())
    return found


@cache
def _generator() -> Any:
    from pydantic.json_schema import GenerateJsonSchema

    class NamingFields(GenerateJsonSchema):
        """Notes the names of fields at each object; all of them are properties, so that each is followed."""

        def model_fields_schema(self, schema: Any) -> Any:
            return _noted(super().model_fields_schema(schema), schema["fields"].items())

        def typed_dict_schema(self, schema: Any) -> Any:
            return _noted(super().typed_dict_schema(schema), schema["fields"].items())

        def dataclass_args_schema(self, schema: Any) -> Any:
            fields = ((each["name"], each) for each in schema["fields"])
            return _noted(super().dataclass_args_schema(schema), fields)

        def handle_invalid_for_json_schema(self, schema: Any, error_info: str) -> Any:
            # A field that no call gives, such as a callback.
            return {}

        def emit_warning(self, kind: Any, detail: str) -> None:
            """Say nothing: a default without a JSON form is noted as computed."""

    return NamingFields


def _noted(found: Any, fields: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    properties, required = found.get("properties", {}), found.get("required", ())
    every, computed, names_of = dict(properties), [], {}
    for name, field in fields:
        names_of[name] = names = _names(name, field.get("validation_alias"))
        own = next((each for each in names if each in properties), None)
        if own is None:
            continue
        every |= {each: properties[own] for each in names if each not in properties}
        is_shared = any(each in properties for each in names if each != own)
        is_unknown = own not in required and "default" not in properties[own]
        if is_shared or (is_unknown and not _is_empty(field["schema"])):
            computed += names
    names = [each for group in names_of.values() for each in group]
    return {**found, "properties": every, _NAMES: names, _SHOWN: list(properties), _COMPUTED: computed}


def _names(name: str, alias: Any) -> list[str]:
    """The names by which a field is taken, as pydantic's core schema has its alias: the shown one before the others.

    Of a path of keys it is the first key. The field's own name counts in any case.
    """
    choices = [[alias]] if isinstance(alias, str) else [] if alias is None else alias
    choices = choices if not choices or isinstance(choices[0], list) else [choices]
    by_length = sorted(choices, key=lambda each: len(each) > 1)
    return list(dict.fromkeys([*(each[0] for each in by_length if isinstance(each[0], str)), name]))


def _is_empty(schema: Any) -> bool:
    """Whether a field that is left out has an empty value; a key of a TypedDict has none."""
    while isinstance(schema, Mapping):
        if schema.get("type") == "default":
            return schema.get("default_factory") in _EMPTY
        schema = schema.get("schema")
    return True
