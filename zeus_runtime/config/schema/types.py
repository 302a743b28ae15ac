"""Types to JSON Schema (draft 2020-12)."""

from __future__ import annotations

import dataclasses
import enum
import pathlib
from collections import abc
from collections.abc import Mapping
from typing import Any, Final, Literal, get_args, get_origin

from zeus_runtime.config.schema import docstrings
from zeus_runtime.config.schema.forms import (
    Field,
    doc,
    fields,
    is_pydantic,
    is_record,
    is_ref,
    is_union,
    marker,
    split,
)
from zeus_runtime.config.schema.markers import (
    AlsoCalled,
    Destination,
    Executes,
    FileRelative,
    Maximum,
    MaxLength,
    Minimum,
    MinLength,
    Pattern,
    RefTo,
    Tunable,
    WorkRelative,
    marked,
)
from zeus_runtime.config.secrets.masking import Secret

REF: Final = "x-zeus-ref"
"""Schema keyword: the value is a Ref to a component of this kind."""
PLAIN: Final = "x-zeus-plain"
"""Schema keyword beside ``x-zeus-ref``: ``[component, option]`` that a plain string stands for."""
TUNABLE: Final = "x-zeus-tunable"
ALSO_CALLED: Final = "x-zeus-also-called"
"""Schema keyword: words by which other products call the same key."""
DOCUMENT: Final = "x-zeus-document"
"""Schema keyword at the top: how errors name a file that is not a config."""

_INHERITED: Final = (RefTo, Destination)
"""Markers of a list or mapping that hold for its entries, beside those of which ``marked`` says it."""
_SCALARS: Final = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}
_LISTS: Final = (list, tuple, set, frozenset, abc.Sequence, abc.Iterable, abc.Collection, abc.Set)
_MAPS: Final = (dict, abc.Mapping, abc.MutableMapping)


def schema_within(annotation: Any, definitions: dict[str, Any], around: tuple[type, ...]) -> dict[str, Any]:
    """The schema of a type that is part of another.

    Args:
        annotation: the type.
        definitions: where schemas of recursive types are put.
        around: the record types it is inside of.
    """
    bare, markers = split(annotation)
    schema = _described(_bare(bare, markers, definitions, around), markers)
    text = doc(markers)
    return {**schema, "description": text} if text else schema


def closed(schema: dict[str, Any]) -> dict[str, Any]:
    """A foreign schema whose objects with named properties allow no further ones, unless they say so."""
    result = {key: _closed_part(key, value) for key, value in schema.items()}
    if (
        "properties" in result
        and "additionalProperties" not in result
        and "unevaluatedProperties" not in result
    ):
        result["additionalProperties"] = False
    return result


def to_json(value: Any) -> Any:
    """A default as JSON; secrets are left out as None.

    Raises:
        TypeError: it has no JSON form.
    """
    if isinstance(value, enum.Enum):
        return value.value
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Secret):
        return None
    if is_ref(type(value)):
        return {value.name: to_json(value.options)} if value.options else value.name
    if dataclasses.is_dataclass(value):
        return {field.key: to_json(getattr(value, field.name)) for field in fields(type(value))}
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, abc.Set):
        return sorted(to_json(item) for item in value)
    if isinstance(value, abc.Sequence):
        return [to_json(item) for item in value]
    if isinstance(value, pathlib.PurePath):
        return value.as_posix()
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise TypeError(f"a default of type {type(value).__name__} has no JSON form")


def _bare(
    tp: Any, markers: tuple[Any, ...], definitions: dict[str, Any], around: tuple[type, ...]
) -> dict[str, Any]:
    origin, args = get_origin(tp), get_args(tp)
    if tp is Any or tp is object:
        return {}
    if tp is None:
        return {"type": "null"}
    if origin is Literal:
        return _choices([value.value if isinstance(value, enum.Enum) else value for value in args])
    if is_union(origin):
        return _union(args, markers, definitions, around)
    if tp in _SCALARS:
        return {"type": _SCALARS[tp]}
    if tp is Secret:
        return {"type": "string", "format": "password", "writeOnly": True}
    if is_ref(tp):
        return _ref(marker(markers, RefTo))
    if isinstance(tp, type) and issubclass(tp, enum.Enum):
        return _choices([member.value for member in tp])
    if isinstance(tp, type) and issubclass(tp, pathlib.PurePath):
        return {"type": "string"}
    if is_pydantic(tp):
        return _pydantic(tp, definitions)
    if is_record(tp):
        return _record(tp, definitions, around)
    if (origin or tp) in _LISTS:
        return _array(origin or tp, args, markers, definitions, around)
    if (origin or tp) in _MAPS:
        return _map(args, markers, definitions, around)
    raise TypeError(
        f"{tp!r} has no JSON form; use str, int, float, bool, None, Literal, lists, mappings, dataclasses"
    )


def _choices(values: list[Any]) -> dict[str, Any]:
    names = {_SCALARS[type(value)] for value in values if type(value) in _SCALARS}
    kind = {"type": names.pop()} if len(names) == 1 else {}
    return {**kind, "const": values[0]} if len(values) == 1 else {**kind, "enum": values}


def _union(
    args: tuple[Any, ...], markers: tuple[Any, ...], definitions: dict[str, Any], around: tuple[type, ...]
) -> dict[str, Any]:
    inherited = tuple(entry for entry in markers if isinstance(entry, RefTo))
    arms = []
    for arm in args:
        bare, own = split(arm)
        schema = _described(_bare(bare, (*own, *inherited), definitions, around), own)
        text = doc(own)
        arms.append({**schema, "description": text} if text else schema)
    # Plain types become a list of types: a failed `anyOf` can only say that no arm fits, a list names the types.
    if all(set(arm) == {"type"} for arm in arms):
        return {"type": [arm["type"] for arm in arms]}
    if len(arms) == 2 and {"type": "null"} in arms:
        other = next(arm for arm in arms if arm != {"type": "null"})
        if "enum" in other and isinstance(other.get("type"), str):
            return {**other, "type": [other["type"], "null"], "enum": [*other["enum"], None]}
        if isinstance(other.get("type"), str) and "const" not in other:
            return {**other, "type": [other["type"], "null"]}
    return {"anyOf": arms}


def _ref(to: RefTo | None) -> dict[str, Any]:
    if to is None:
        raise TypeError("a Ref field says which kind of component it names: Annotated[Ref, RefTo('tool')]")
    return {
        REF: to.kind,
        **({PLAIN: list(to.plain)} if to.plain else {}),
        "anyOf": [
            {"type": "string"},
            {
                "type": "object",
                "minProperties": 1,
                "maxProperties": 1,
                "additionalProperties": {"type": ["object", "null"]},
            },
        ],
    }


def _record(tp: Any, definitions: dict[str, Any], around: tuple[type, ...]) -> dict[str, Any]:
    # A record inside itself (an agent's agents) becomes a reference; the empty definition marks that it is needed.
    if tp in around:
        definitions.setdefault(tp.__name__, {})
        return {"$ref": f"#/$defs/{tp.__name__}"}
    docstring = docstrings.parse(_written_docstring(tp))
    listed = fields(tp)
    schema: dict[str, Any] = {"type": "object"}
    if docstring.description:
        schema["description"] = docstring.description
    schema["properties"] = {
        field.key: _property(field, docstring, definitions, (*around, tp)) for field in listed
    }
    if required := [field.key for field in listed if field.required]:
        schema["required"] = required
    schema["additionalProperties"] = False
    schema.update(tp.__dict__.get("json_schema_extra", {}))
    # A record inside it referred to this one, so it is a definition and not written out in place.
    if tp.__name__ in definitions and not definitions[tp.__name__]:
        definitions[tp.__name__] = schema
        return {"$ref": f"#/$defs/{tp.__name__}"}
    return schema


def _property(
    field: Field, docstring: docstrings.Docstring, definitions: dict[str, Any], around: tuple[type, ...]
) -> dict[str, Any]:
    schema = schema_within(field.annotation, definitions, around)
    if "description" not in schema and (text := docstring.parameters.get(field.name)):
        schema = {**schema, "description": text}
    if field.default is None:
        return schema
    default = field.default()
    bare, _ = split(field.annotation)
    # Defaults of records are those of their keys, and a secret's default would be printed by every `zeus schema`.
    if bare is Secret or isinstance(default, Secret) or (is_record(bare) and not is_ref(bare)):
        return schema
    return {**schema, "default": to_json(default)}


def _written_docstring(tp: type) -> str | None:
    text = tp.__dict__.get("__doc__")
    return None if not text or text.startswith(f"{tp.__name__}(") else text


def _array(
    kind: Any,
    args: tuple[Any, ...],
    markers: tuple[Any, ...],
    definitions: dict[str, Any],
    around: tuple[type, ...],
) -> dict[str, Any]:
    inherited = tuple(entry for entry in markers if isinstance(entry, _INHERITED))
    parts = [_item(arg, inherited, definitions, around) for arg in args if arg is not Ellipsis]
    if kind is tuple and args and Ellipsis not in args:
        return {
            "type": "array",
            "prefixItems": parts,
            "items": False,
            "minItems": len(parts),
            "maxItems": len(parts),
        }
    unique = {"uniqueItems": True} if kind in (set, frozenset, abc.Set) else {}
    return {"type": "array", **({"items": parts[0]} if parts and parts[0] else {}), **unique}


def _map(
    args: tuple[Any, ...], markers: tuple[Any, ...], definitions: dict[str, Any], around: tuple[type, ...]
) -> dict[str, Any]:
    if not args:
        return {"type": "object"}
    key, _ = split(args[0])
    if key is not str and get_origin(key) is not Literal:
        raise TypeError(f"a mapping's keys are str in JSON, not {key!r}")
    # The plain keys are those of this mapping, not of one in it.
    inherited = tuple(
        entry._replace(plain=None) if isinstance(entry, Destination) else entry
        for entry in markers
        if isinstance(entry, _INHERITED)
    )
    names = {"propertyNames": {"enum": list(get_args(key))}} if get_origin(key) is Literal else {}
    value = _item(args[1], inherited, definitions, around)
    return {"type": "object", **names, **({"additionalProperties": value} if value else {})}


def _item(
    annotation: Any, inherited: tuple[Any, ...], definitions: dict[str, Any], around: tuple[type, ...]
) -> dict[str, Any]:
    bare, own = split(annotation)
    markers = (*own, *inherited)
    schema = _described(_bare(bare, markers, definitions, around), markers)
    text = doc(own)
    return {**schema, "description": text} if text else schema


def _pydantic(tp: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    schema = closed(tp.model_json_schema())
    definitions.update(schema.pop("$defs", {}))
    return schema


def _closed_part(key: str, value: Any) -> Any:
    if isinstance(value, list):
        return [closed(item) if isinstance(item, dict) else item for item in value]
    if not isinstance(value, dict):
        return value
    if key in ("properties", "$defs", "patternProperties"):
        return {name: closed(part) if isinstance(part, dict) else part for name, part in value.items()}
    return value if key in ("default", "const", "examples") else closed(value)


def _described(schema: dict[str, Any], markers: tuple[Any, ...]) -> dict[str, Any]:
    found = dict(schema)
    for entry in markers:
        if isinstance(entry, Minimum):
            found["minimum"] = entry.value
        elif isinstance(entry, Maximum):
            found["maximum"] = entry.value
        elif isinstance(entry, MinLength):
            found["minItems" if "array" in _types(schema) else "minLength"] = entry.value
        elif isinstance(entry, MaxLength):
            found["maxItems" if "array" in _types(schema) else "maxLength"] = entry.value
        elif isinstance(entry, Pattern):
            found["pattern"] = entry.regex
        elif isinstance(entry, AlsoCalled):
            found[ALSO_CALLED] = list(entry.words)
        elif isinstance(entry, Tunable):
            found[TUNABLE] = list(entry.values)
        elif isinstance(entry, FileRelative | WorkRelative | Executes | Destination):
            found = marked(found, entry)
    return found


def _types(schema: dict[str, Any]) -> tuple[str, ...]:
    named = schema.get("type", ())
    return (named,) if isinstance(named, str) else tuple(named)
