"""The JSON Schema of an answer: its faults, and whether a provider takes it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

_ENFORCED: Final = frozenset(
    {
        *(
            "type",
            "properties",
            "required",
            "additionalProperties",
            "items",
            "enum",
            "const",
            "anyOf",
            "$ref",
        ),
        *("$defs", "title", "description", "pattern", "format", "minItems", "maxItems"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    }
)
"""The keywords of OpenAI's strict response format (platform.openai.com/docs/guides/structured-outputs). Anthropic's
knows fewer; litellm writes the others into the description."""

_FORMATS: Final = frozenset(
    ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid")
)
"""The formats that it takes; Anthropic takes them too."""

_LOOKAROUND: Final = "(?"

_COMBINED: Final = ("$ref", "allOf", "anyOf", "const", "enum", "not", "oneOf", "if")
"""Keys that providers refuse at the top of a call's parameters."""

_SAMPLES: Final[tuple[Any, ...]] = (None, {}, [], "", 0)

_REFERRING: Final = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
_HERE: Final = "refer to a place in this schema, such as `#/$defs/NAME`"
_BY_NAME: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_PLAIN: Final = frozenset({"enum", "const", "default", "examples"})
Fault: TypeAlias = tuple[tuple[str | int, ...], str, str]
"""The place in the schema, the message, and the remedy."""
_MOST_BYTES: Final = 200_000
"""Of a schema as JSON: each request sends it."""


def validator_of(schema: Mapping[str, Any]) -> Validator:
    """Checks values against a schema, its formats too."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for
    from referencing import Registry

    kind = validator_for(schema, default=Draft202012Validator)
    # The default registry fetches references from the network.
    return kind(schema, registry=Registry(), format_checker=kind.FORMAT_CHECKER)


def faults_of(value: Mapping[str, Any]) -> Iterator[Fault]:
    """The faults of a schema."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match
    from jsonschema.validators import validator_for

    size = len(json.dumps(value, ensure_ascii=False))
    if size > _MOST_BYTES:
        yield (), f"the schema takes {size:,} characters, and {_MOST_BYTES:,} are the most", "shorten it"
    named = value.get("$schema")
    kind = validator_for(value, default=Draft202012Validator)
    if isinstance(named, str) and kind.META_SCHEMA.get("$id", kind.META_SCHEMA.get("id")) != named.rstrip(
        "#"
    ):
        hint = f"remove it, or write {Draft202012Validator.META_SCHEMA['$id']}"
        yield ("$schema",), f"{named!r} is not a known version of JSON Schema", hint
    error = best_match(kind(kind.META_SCHEMA, format_checker=kind.FORMAT_CHECKER).iter_errors(value))
    if error is not None:
        where = tuple(error.absolute_path)
        hint = "write a JSON Schema (json-schema.org)"
        yield where, f"this is not a JSON Schema: {error.message}", hint
        return
    # Below a keyword that JSON Schema does not know, it allows everything.
    wrong = [
        (*path, key)
        for path, node in _nodes(value)
        for key in _REFERRING & node.keys()
        if not isinstance(node[key], str)
    ]
    if wrong:
        yield from ((path, "a reference is a text", _HERE) for path in wrong)
        return
    yield from _lost_references(value)
    # The innermost first, as an outer schema fails where an inner one does.
    for path, node in reversed(list(_nodes(value))):
        if path == () or not _REFERRING.isdisjoint(node):
            yield from _endless(value, path, node)


def _endless(
    schema: Mapping[str, Any], path: tuple[str | int, ...], node: Mapping[str, Any]
) -> Iterator[Fault]:
    from referencing.exceptions import Unresolvable

    validator: Any = validator_of(schema)
    try:
        for sample in _SAMPLES:
            # To the end: errors are made lazily, and one value of each type reaches each keyword.
            list(validator.descend(sample, node))
    except RecursionError:
        yield path, "the schema refers to itself without end", "let a `$ref` lead to another place"
    except Unresolvable:
        named = " or ".join(repr(node[key]) for key in sorted(_REFERRING & node.keys()))
        yield path, f"{named or 'a reference'} is not in this schema", _HERE


def _lost_references(schema: Mapping[str, Any]) -> Iterator[Fault]:
    from referencing import Registry
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    resolver = Registry().resolver_with_root(DRAFT202012.create_resource(schema))
    for path, node in _nodes(schema):
        reference = node.get("$ref")
        if not isinstance(reference, str):
            continue
        try:
            if not reference.startswith("#"):
                raise Unresolvable(ref=reference)
            resolver.lookup(reference)
        except Unresolvable:
            yield (*path, "$ref"), f"{reference!r} is not in this schema", _HERE


def _nodes(
    schema: Any, path: tuple[str | int, ...] = ()
) -> Iterator[tuple[tuple[str | int, ...], Mapping[str, Any]]]:
    """Every schema in a schema, with its place."""
    if isinstance(schema, list):
        for index, each in enumerate(schema):
            yield from _nodes(each, (*path, index))
    if not isinstance(schema, Mapping):
        return
    yield path, schema
    for key, value in schema.items():
        if key in _BY_NAME and isinstance(value, Mapping):
            for name, each in value.items():
                yield from _nodes(each, (*path, key, name))
        elif key not in _PLAIN:
            yield from _nodes(value, (*path, key))


def unenforced(schema: Mapping[str, Any]) -> Iterator[str]:
    """Why a response format cannot hold an answer to the schema."""
    if why := no_parameters(schema):
        yield why
    sent = sent_schema(schema)
    for path, node in _nodes(sent):
        at = f" ({'/'.join(map(str, path))})" if path else ""
        yield from (f"{why}{at}" for why in _unenforced_node(node))
    if _is_recursive(sent):
        yield "it refers to itself"
    yield from _oversized(sent)


def _unenforced_node(node: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"it does not take `{key}`" for key in node if key not in _ENFORCED)
    if "$ref" in node:
        if len(node) > 1:
            yield "it does not take other keys beside `$ref`"
        if not str(node["$ref"]).startswith("#/$defs/"):
            yield "a `$ref` leads to `#/$defs/NAME`"
        return
    if not {"type", "anyOf"} & node.keys():
        yield "it needs a `type`"
    if node.get("format", "date") not in _FORMATS:
        yield f"it does not take the format {node['format']!r}"
    if _LOOKAROUND in str(node.get("pattern", "")).replace("(?:", ""):
        yield "its patterns have no `(?`"
    if "array" in _types(node) and not isinstance(node.get("items"), Mapping):
        yield "an array needs `items`"
    if "object" in _types(node) or "properties" in node:
        if node.get("additionalProperties") is not False:
            yield "an object needs `additionalProperties: false`"
        missing = [name for name in node.get("properties", {}) if name not in node.get("required", ())]
        if missing:
            yield f"`{missing[0]}` is not required"


def _types(node: Mapping[str, Any]) -> Sequence[str]:
    named = node.get("type", ())
    return (named,) if isinstance(named, str) else named


def _is_recursive(schema: Mapping[str, Any]) -> bool:
    """Whether definitions refer to each other in a circle; litellm cannot inline those for Anthropic."""
    from graphlib import CycleError, TopologicalSorter

    named = {
        name: [str(node["$ref"]).removeprefix("#/$defs/") for _, node in _nodes(each) if "$ref" in node]
        for name, each in schema.get("$defs", {}).items()
    }
    try:
        TopologicalSorter(named).prepare()
    except CycleError:
        return True
    return False


def _oversized(schema: Mapping[str, Any]) -> Iterator[str]:
    """Which of OpenAI's limits on a schema's size it exceeds."""
    nodes = list(_nodes(schema))
    names = [name for _, node in nodes for name in (*node.get("properties", ()), *node.get("$defs", ()))]
    enums = [node["enum"] for _, node in nodes if "enum" in node]
    values = [value for each in enums for value in each]
    texts = [*names, *(str(value) for value in values), *(str(node.get("const", "")) for _, node in nodes)]
    deepest = max(sum(step == "properties" for step in path) for path, _ in nodes)
    found = {
        "properties": (len(names), 5_000),
        "levels of objects": (deepest, 10),
        "values in enums": (len(values), 1_000),
        "characters in names and values": (sum(map(len, texts)), 120_000),
    }
    yield from (
        f"it has {count:,} {what}, and {most:,} are the most"
        for what, (count, most) in found.items()
        if count > most
    )
    if any(len(each) > 250 and sum(len(str(value)) for value in each) > 15_000 for each in enums):
        yield "an enum of more than 250 values has more than 15,000 characters"


def no_parameters(schema: Mapping[str, Any]) -> str | None:
    """Why a schema cannot be the parameters of a call."""
    if schema.get("type") != "object":
        return "its top level is not `type: object`"
    return next((f"its top level has `{key}`" for key in _COMBINED if key in schema), None)


def sent_schema(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema as providers get it: without keys that name a version or a place."""
    return {key: value for key, value in schema.items() if key not in ("$schema", "$id")}
