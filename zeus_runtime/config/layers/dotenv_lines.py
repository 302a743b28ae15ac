"""The lines of a ``.env``; apart from its reader, so that what finds secrets can read them too."""

from __future__ import annotations

import re

# `A=b # c` is `b`, `A= # c` is empty, and `A=b#c` is `b#c`; text behind a closing quote makes the line an error.
# Each run of blanks is taken whole (`*+`): a second try at each of its blanks would take quadratic time.
_LINE = re.compile(
    r"""[ \t]*+(?:export[ \t]++)?(?P<name>[A-Za-z_][A-Za-z0-9_.]*+)[ \t]*+=[ \t]*+
    (?: '(?P<single>[^']*)' | "(?P<double>(?:[^"\\]|\\.)*)"
      | (?P<bare>(?!(?<=[ \t])\#)[^'"\s](?:[^ \t\n]++|[ \t]++(?!\#|\n|\Z))*+|) )
    [ \t]*+(?:(?<=[ \t])\#[^\n]*)?(?:\n|$)""",
    re.VERBOSE | re.DOTALL,
)
_BLANK = re.compile(r"[ \t]*(?:#[^\n]*)?(?:\n|$)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


def entry_at(text: str, position: int) -> tuple[str, str, int] | None:
    """The name and the value of the line that begins at a place, and where it ends; without a name if it is blank or a
    comment, None if it has another form."""
    if match := _BLANK.match(text, position):
        return "", "", match.end()
    match = _LINE.match(text, position)
    return (match["name"], _value(match), match.end()) if match else None


def _value(match: re.Match[str]) -> str:
    if match["single"] is not None:
        return match["single"]
    if match["double"] is not None:
        return re.sub(
            r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[1]), match["double"], flags=re.DOTALL
        )
    return match["bare"].rstrip()
