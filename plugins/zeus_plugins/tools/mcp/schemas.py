"""Validation of a tool's parameters: they must be a JSON Schema that providers and calls can use."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote

from zeus_runtime.plugin import cut_text

MAX_CHARACTERS: Final = 200_000
"""Most characters of a tool's parameters as JSON."""
_LONGEST: Final = 200
_INDEX: Final = re.compile("[0-9]{1,9}")
"""Python reads no number of more than 4,300 digits, and `isdigit` takes a `²`, which it does not read either."""


def schema_problem(schema: Mapping[str, Any], subject: str = "its parameters") -> str | None:
    """The reason why a schema cannot be sent to a model, or a form be shown to a user; None if it can.

    A provider refuses the whole request because of one broken schema.

    Args:
        subject: what it is the schema of, in the plural.
    """
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for

    try:
        if len(json.dumps(schema)) > MAX_CHARACTERS:
            return f"{subject} have more than {MAX_CHARACTERS:,} characters"
        validator_for(dict(schema), default=Draft202012Validator).check_schema(dict(schema))
        missing = next((name for name in _references(schema) if not _leads(name, schema)), None)
    except SchemaError as error:
        place = ".".join(str(step) for step in error.absolute_path)
        where = f"{place}: " if place else ""
        return f"{subject} are not a JSON Schema: {where}{cut_text(error.message, _LONGEST)}"
    except RecursionError:
        return f"{subject} are nested too deeply"
    return (
        None
        if missing is None
        else f"{subject} refer to {cut_text(missing, _LONGEST)!r}, which does not exist"
    )


def _references(value: Any) -> Iterator[str]:
    """The values of ``$ref`` at any depth, except inside a schema with its own address (``$id``).

    Values of ``default``, ``enum`` and the like are data, not schemas.
    """
    if isinstance(value, list):
        for each in value:
            yield from _references(each)
    elif isinstance(value, dict):
        name = value.get("$ref")
        if isinstance(name, str):
            yield name
        for key, each in value.items():
            is_apart = isinstance(each, dict) and isinstance(each.get("$id"), str)
            if key not in ("default", "enum", "const", "examples") and not is_apart:
                yield from _references(each)


def _leads(name: str, schema: Mapping[str, Any]) -> bool:
    """Whether the target of a reference exists. Only references by path are checked; the call resolves the others."""
    if name != "#" and not name.startswith("#/"):
        return not name.startswith(("http://", "https://"))
    place: Any = schema
    # RFC 6901: in a fragment, first percent signs are decoded, then `~1` before `~0`.
    for written in unquote(name.removeprefix("#")).split("/")[1:]:
        step = written.replace("~1", "/").replace("~0", "~")
        if isinstance(place, list) and _INDEX.fullmatch(step) and int(step) < len(place):
            place = place[int(step)]
        elif isinstance(place, dict) and step in place:
            place = place[step]
        else:
            return False
    return True
