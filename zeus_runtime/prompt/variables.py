"""``{{name}}`` in prompt files: the variables in use, their problems, and the text with values filled in. Pure.

Nothing else is special: no expressions, no conditions. Single braces are text, ``\\{{`` is a literal ``{{``, and a
value is inserted unchanged, whatever it contains.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

# "\{{" is a literal, "{{ name }}" a variable; anything else behind "{{", such as "{{a b}}", is a problem, reported as
# `rest` of at most 40 characters.
_BRACES = re.compile(
    r"\\\{\{|\{\{[ \t]*(?P<name>[A-Za-z_][A-Za-z0-9_]*)[ \t]*\}\}|\{\{(?P<rest>[^\n}]{0,40}(?:\}\})?)"
)


class Use(NamedTuple):
    """One ``{{`` in a text.

    Args:
        name: the variable, or None if ``name}}`` does not follow.
        written: the text as written in the file.
        line: counted from 1.
        column: counted from 1, in characters.
    """

    name: str | None
    written: str
    line: int
    column: int


def uses(text: str) -> Iterator[Use]:
    """Every unescaped ``{{`` of a text, in order."""
    for match in _BRACES.finditer(text):
        if match[0].startswith("\\"):
            continue
        before = text[: match.start()]
        line = before.count("\n") + 1
        yield Use(match["name"], match[0], line, match.start() - before.rfind("\n"))


def names(texts: Iterable[str]) -> frozenset[str]:
    """The variables that texts use."""
    return frozenset(use.name for text in texts for use in uses(text) if use.name)


def substitute(text: str, values: Mapping[str, str]) -> str:
    """The text with every ``{{name}}`` replaced by its value and ``\\{{`` by ``{{``; values are not searched again.

    Raises:
        KeyError: a name has no value; ``prompt.stable`` reports that earlier, with its position.
    """

    def value(match: re.Match[str]) -> str:
        if match[0].startswith("\\"):
            return match[0][1:]
        return values[match["name"]] if match["name"] else match[0]

    return _BRACES.sub(value, text)
