"""Read JSON that a model wrote, strictly: finite numbers, a limited depth, whole characters."""

from __future__ import annotations

import json
from typing import Any, Final

_MOST_LEVELS: Final = 100
"""Of nesting: libraries that read JSON recursively fail at a few hundred."""
_TOO_DEEP: Final = f"nested too deeply, in more than {_MOST_LEVELS} levels"


def strict_json(text: str) -> Any:
    """The value of JSON ``text``.

    A lone surrogate becomes U+FFFD. No database and no socket accepts one, so the call would run with another value
    than a person saw.

    Raises:
        ValueError: not JSON, a number that is not finite, or nested too deeply.
    """
    try:
        value = json.loads(text, parse_constant=_no_constant, parse_float=_finite)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    if _is_deeper(value, _MOST_LEVELS):
        raise ValueError(_TOO_DEEP)
    # Only an escape can be a lone surrogate.
    return json.loads(well_formed(json.dumps(value, ensure_ascii=False))) if "\\u" in text else value


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
