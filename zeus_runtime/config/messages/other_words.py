"""Map words of other products to Zeus's keys, and find the right place of a misplaced key. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from zeus_runtime.config.schema.types import ALSO_CALLED, PLAIN, REF
from zeus_runtime.config.schema.walk import resolve

_MOST_DEEP: Final = 3


def called_here(word: str, properties: Mapping[str, Any]) -> str | None:
    """The key of this section that is the same word in another spelling, or that other products call by this word."""
    wanted = _folded(word)
    for name, part in properties.items():
        if _folded(name) == wanted or (
            isinstance(part, Mapping) and wanted in map(_folded, part.get(ALSO_CALLED, ()))
        ):
            return name
    return None


def belongs(word: str, root: Mapping[str, Any]) -> list[str]:
    """The paths where a config may have this key, or a key that other products call so: ``limits.max_steps``.

    Args:
        root: a config's schema.
    """
    return [".".join(path) for path in _places(word, root, root, ())]


def component_with(
    word: str, known: Mapping[str, Any], root: Mapping[str, Any], *, in_title: bool = False
) -> str | None:
    """The component whose description has the word: ``web_search`` is a tool of ``web``.

    Args:
        in_title: search only the text before the description's colon, which says what the component is.
    """
    whole = re.compile(rf"(?<![\w-]){re.escape(word)}s?(?![\w-])", re.IGNORECASE)
    for name, part in known.items():
        about = resolve(_first(part), root)
        title, colon, _ = str(about.get("description", "")).partition(":")
        if whole.search((title if colon else "") if in_title else str(about.get("description", ""))):
            return name
    return None


def _places(
    word: str, schema: Mapping[str, Any], root: Mapping[str, Any], path: tuple[str, ...]
) -> Iterator[tuple[str, ...]]:
    properties = _properties(schema, root)
    if path and (name := called_here(word, properties)) is not None:
        yield (*path, name)
    if len(path) < _MOST_DEEP:
        for name, part in properties.items():
            if isinstance(part, Mapping):
                yield from _places(word, part, root, (*path, name))


def _properties(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """The keys of a section; of a plain Ref those of the component that a plain name means."""
    schema = resolve(schema, root)
    if REF in schema:
        plain = schema.get(PLAIN)
        known = schema["anyOf"][-1].get("properties", {})
        return {plain[0]: known[plain[0]]} if plain and plain[0] in known else {}
    found: dict[str, Any] = dict(schema.get("properties", {}))
    for arm in schema.get("anyOf", ()):
        found = {**_properties(arm, root), **found}
    return found


def _first(part: Any) -> Mapping[str, Any]:
    """A component's own schema, which may be in a union with null."""
    found: Mapping[str, Any] = next(iter(part.get("anyOf", ())), part)
    return found


def _folded(word: str) -> str:
    return re.sub(r"[^a-z0-9]", "", word.lower())
