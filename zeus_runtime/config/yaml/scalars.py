"""Plain YAML scalars by the core schema of YAML 1.2.2 (section 10.3.2): ``no`` is text, ``0o14`` is twelve."""

from __future__ import annotations

import re
from typing import TypeAlias

Scalar: TypeAlias = str | int | float | bool | None

_NAMED: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
# With a leading zero too: `010` is ten, and only `0o10` is eight.
_INTEGER = re.compile(r"[-+]?[0-9]+")
_OCTAL = re.compile(r"0o[0-7]+")
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?(\.inf|\.Inf|\.INF)|\.nan|\.NaN|\.NAN")
# The largest float has 309; `int()` raises an error of its own above 4,300.
_MOST_DIGITS = 400
_LARGEST = 2**63 - 1
"""Beyond it databases, JSON readers and the conversion to a float lose digits or fail."""


class NotJsonError(ValueError):
    """A YAML scalar that JSON cannot hold: infinity, not-a-number, or a number of absurd length."""


def resolve(text: str) -> Scalar:
    """The value of a plain (unquoted, untagged) scalar.

    Raises:
        NotJsonError: JSON cannot hold the value.
    """
    if text in _NAMED:
        return _NAMED[text]
    first = text[0]
    # Most values are words, and need none of the patterns.
    if not (first.isdigit() or first in "+-."):
        return text
    if _NOT_FINITE.fullmatch(text):
        raise NotJsonError(f"{text} is not a JSON number")
    if len(text) > _MOST_DIGITS and _FLOAT.fullmatch(text):
        raise NotJsonError(f"a number of {len(text)} digits")
    if _INTEGER.fullmatch(text):
        return _integer(text, int(text))
    if _OCTAL.fullmatch(text):
        return _integer(text, int(text[2:], 8))
    if _HEXADECIMAL.fullmatch(text):
        return _integer(text, int(text[2:], 16))
    if _FLOAT.fullmatch(text):
        number = float(text)
        # `float("1e999")` raises no error.
        if number in (float("inf"), float("-inf")):
            raise _too_large(text)
        return number
    return text


def _integer(text: str, number: int) -> int:
    if abs(number) > _LARGEST:
        raise _too_large(text)
    return number


def _too_large(text: str) -> NotJsonError:
    # Not shown: a password of digits without quotes is read as a number.
    return NotJsonError(f"a number of {len(text)} characters is too large for a JSON number")
