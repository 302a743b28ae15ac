"""Where one value comes from, in words: for ``zeus plan --explain PATH``."""

from __future__ import annotations

from collections.abc import Mapping
from json import dumps
from typing import TYPE_CHECKING, Any

from zeus_runtime.config.layers.set_option import as_path, split_path
from zeus_runtime.config.messages.diagnostics import ConfigError, Diagnostic, listing, suggestion
from zeus_runtime.config.schema.walk import at, branches
from zeus_runtime.config.yaml.tree import find, nearest, plain, show_path

if TYPE_CHECKING:
    from zeus_runtime.config.document import Document
    from zeus_runtime.config.yaml.tree import Path


def explain_value(document: Document, text: str) -> str:
    """What ``Document.explain`` gives: the value, secrets masked, and the places that wrote it, newest first."""
    keys = split_path(text)[0]
    path = as_path(keys, document.root)
    node = find(document.root, path)
    if node is None:
        return _default(document, path)
    value = dumps(document.redactor.json(plain(node)), ensure_ascii=False)
    first, *older = document.origins(path)
    shown = document.sources.shown
    lines = [f"{show_path(path)} = {value}", f"  set at {shown(str(first.value))}"]
    lines += [f"  overrides {shown(str(origin.value))}" for origin in older]
    if node.interpolated:
        lines.append("  filled in from the environment")
    if description := _described(document, path):
        lines.append(f"  {description}")
    return document.redactor("\n".join(lines))


def _default(document: Document, path: Path) -> str:
    schema = document.schema
    places = _places(schema, path) if schema is not None else []
    for place in places:
        if "default" in place:
            shown = dumps(place["default"], ensure_ascii=False)
            text = f"{show_path(path)} = {shown}\n  the default; not written in {document.source}"
            description = place.get("description")
            return f"{text}\n  {description}" if description else text
    if places:
        return f"{show_path(path)} has no value\n  not written in {document.source}"
    raise ConfigError([_unknown(document, path)])


def _unknown(document: Document, path: Path) -> Diagnostic:
    depth = len(nearest(document.root, path)[1])
    while depth < len(path) - 1 and _places(document.schema, path[: depth + 1]):
        depth += 1
    above = find(document.root, path[:depth])
    known = {key for place in _places(document.schema, path[:depth]) for key in place.get("properties", {})}
    known |= above.value.keys() if above is not None and above.is_map else set()
    message = f"the config has no value {show_path(path)}{suggestion(str(path[depth]), sorted(known))}"
    hint = f"the keys are {listing(sorted(known))}"
    return document.sources.diagnostic("unknown-key", message, None, hint=hint)


def _described(document: Document, path: Path) -> str | None:
    places = _places(document.schema, path) if document.schema is not None else []
    return next((place["description"] for place in places if "description" in place), None)


def _places(schema: Mapping[str, Any] | None, path: Path) -> list[Mapping[str, Any]]:
    if schema is None:
        return []
    places = branches(schema, schema)
    for step in path:
        places = at(places, step, schema)
    return places
