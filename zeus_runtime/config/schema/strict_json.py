"""Read JSON that a model wrote, strictly: finite numbers, a limited depth, whole characters."""

from __future__ import annotations

from typing import Any, Final

_MOST_LEVELS: Final = 100
"""Of nesting: libraries that read JSON recursively fail at a few hundred."""


def strict_json(text: str) -> Any:
    """The value of JSON ``text``.

    A lone half of a surrogate pair becomes U+FFFD: no database and no socket accepts it, so that another value would
    run than the one that a person saw.

    Raises:
        ValueError: not JSON, a number that is not finite, or nested too deeply.
    """
    from json import dumps, loads

    try:
        value = loads(text, parse_constant=_no_constant, parse_float=_finite)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if _is_deeper(value, _MOST_LEVELS):
        raise ValueError("nested too deeply")
    return loads(well_formed(dumps(value, ensure_ascii=False))) if "\\u" in text else value


def well_formed(text: str) -> str:
    """``text`` with surrogate pairs joined and lone surrogates replaced by U+FFFD.

    Providers that escape an emoji as two halves, in two chunks, leave text no database and no socket accepts.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _is_deeper(value: Any, most: int) -> bool:
    level = [value]
    for _ in range(most):
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return False
    return True


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"{text} is too large a number")
    return number


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")
