"""A function's signature and docstring to the JSON Schema of its parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from zeus_runtime.config.schema import docstrings
from zeus_runtime.config.schema.forms import hints_of
from zeus_runtime.config.schema.types import schema_within, to_json
from zeus_runtime.config.secrets.masking import Secret


def schema_of(annotation: Any) -> dict[str, Any]:
    """The JSON Schema of a type, or of a function's parameters.

    Objects of dataclasses and TypedDicts allow no further keys. Recursive types go through ``$defs``. A pydantic
    model gives its own schema, closed against unknown keys unless it says ``extra="allow"``.

    Args:
        annotation: a type, an ``Annotated`` type, or a function.

    Raises:
        TypeError: a type has no JSON form, or a pydantic model cannot give its schema.
    """
    if callable(annotation) and not isinstance(annotation, type) and hasattr(annotation, "__code__"):
        return schema_of_function(annotation)[1]
    definitions: dict[str, Any] = {}
    schema = schema_within(annotation, definitions, ())
    return {**schema, "$defs": definitions} if definitions else schema


def schema_of_function(
    function: Callable[..., Any], skip: Sequence[str] = ("run",)
) -> tuple[str, dict[str, Any]]:
    """A function's description, and the object schema of its parameters.

    The description is the docstring up to its first section; a parameter's is its ``Doc`` or its line under
    ``Args:``. Parameters without a default are required.

    Args:
        function: its parameters are annotated and can all be given by keyword.
        skip: names of parameters that the caller fills in; the schema leaves them out.

    Raises:
        TypeError: a parameter has no annotation, no JSON form, or cannot be given by keyword.
    """
    from inspect import Parameter, signature

    name = getattr(function, "__name__", repr(function))
    hints = hints_of(function)
    docstring = docstrings.parse(function.__doc__)
    properties: dict[str, Any] = {}
    definitions: dict[str, Any] = {}
    required = []
    for parameter in signature(function).parameters.values():
        if parameter.name in skip:
            continue
        if parameter.kind not in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY):
            raise TypeError(f"{name}: the parameter {parameter} cannot be given by keyword")
        if parameter.name not in hints:
            raise TypeError(f"{name}: the parameter {parameter.name!r} has no annotation")
        schema = schema_within(hints[parameter.name], definitions, ())
        if "description" not in schema and (text := docstring.parameters.get(parameter.name)):
            schema = {**schema, "description": text}
        if parameter.default is Parameter.empty:
            required.append(parameter.name)
        elif not isinstance(parameter.default, Secret):
            schema = {**schema, "default": to_json(parameter.default)}
        properties[parameter.name] = schema
    result: dict[str, Any] = {"type": "object", "properties": properties, "required": required}
    result["additionalProperties"] = False
    return docstring.description, {**result, "$defs": definitions} if definitions else result
