"""JSON: read strictly where a model or a person wrote it, and plain values of anything that is to be written."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import Any, Final

_MOST_LEVELS: Final = 100
"""Of nesting: libraries that read JSON recursively fail at a few hundred."""
_STRING: Final = r'"(?:\\.|[^"\\\n])*"?'
_COMMENT: Final = r"//[^\n]*|/\*(?:[^*]|\*(?!/))*(?:\*/)?"
_LAST_COMMA: Final = r",(?=\s*[}\]])"
_TOO_DEEP: Final = f"nested too deeply, in more than {_MOST_LEVELS} levels"


def strict_json(text: str) -> Any:
    """The value of JSON ``text``.

    A lone surrogate becomes U+FFFD. No database and no socket accepts one, so the call would run with another value
    than a person saw.

    Raises:
        ValueError: not JSON, a number that is not finite, or nested too deeply.
    """
    value = read_json(text, parse_constant=_no_constant, parse_float=_finite)
    # Only an escape can be a lone surrogate.
    return json.loads(well_formed(json.dumps(value, ensure_ascii=False))) if "\\u" in text else value


def read_json(
    text: str, object_pairs_hook: Callable[[list[tuple[str, Any]]], Any] | None = None, **hooks: Any
) -> Any:
    """The value of JSON ``text``, as ``json.loads`` reads it, nested in at most 100 levels.

    Args:
        object_pairs_hook, hooks: as ``json.loads`` takes them.

    Raises:
        ValueError: not JSON, or nested too deeply.
    """
    try:
        value = json.loads(text, object_pairs_hook=object_pairs_hook, **hooks)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    if _is_deeper(value, _MOST_LEVELS):
        raise ValueError(_TOO_DEEP)
    return value


def without_comments(text: str) -> str:
    """A text of JSON without the comments, and the commas before a bracket, that editors allow there."""
    for skipped in (_COMMENT, _LAST_COMMA):
        text = re.sub(rf"({_STRING})|{skipped}", lambda found: found[1] or " ", text)
    return text


def json_problem(value: Any, *, finite: bool = True) -> str | None:
    """Why a value that a program made is not JSON as ``strict_json`` reads it; None if it is.

    A walk over a value that passed may be recursive: it is nested in at most 100 levels.

    Args:
        finite: whether each number must be finite.
    """
    if _is_deeper(value, _MOST_LEVELS):
        return _TOO_DEEP
    try:
        json.dumps(value, allow_nan=not finite, default=plain_mapping)
    except (TypeError, ValueError, RecursionError) as error:
        return str(error)
    return None


def plain_mapping(value: Any) -> dict[Any, Any]:
    """A mapping as the ``dict`` that ``json.dumps`` takes; its ``default``.

    Raises:
        TypeError: it is no mapping.
    """
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


def persons_json(text: str) -> Any:
    """``strict_json`` of a text that decides what runs: the value is the one that is written, or it is refused.

    Raises:
        ValueError: as ``strict_json``, a key is there twice, a number has more digits than are kept, or a character
            is half of a surrogate pair.
    """
    value = strict_json(text)
    if json.loads(text, object_pairs_hook=_unique, parse_float=_whole) != value:
        raise ValueError("half of a surrogate pair is not a character")
    return value


def _whole(text: str) -> float:
    from decimal import Decimal

    number = float(text)
    try:
        is_kept = Decimal(text) == Decimal(repr(number))
    except ArithmeticError:  # its exponent is too long
        is_kept = False
    if not is_kept:
        raise ValueError(f"{text} would be {number!r}")
    return number


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is there twice")
    return found


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
            if isinstance(each, Mapping | list | tuple)
            for inner in (each.values() if isinstance(each, Mapping) else each)
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


def plain_json(value: Any) -> Any:
    """``value`` as JSON values: dataclasses by fields, times in ISO 8601, anything else that JSON lacks as its ``str``.

    A text stays the object it is, because its type may say that it is secret.
    """
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else str(key): plain_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_json(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain_json(getattr(value, field.name)) for field in fields(value)}
    return value.isoformat() if isinstance(value, datetime) else str(value)


def keys_in(part: Any) -> Iterator[str]:
    """The keys of all objects in a JSON value, at any depth."""
    # A stack and no recursion: a model's arguments may be nested very deeply.
    left = [part]
    while left:
        each = left.pop()
        if isinstance(each, Mapping):
            yield from each
            left += each.values()
        elif isinstance(each, list | tuple):
            left += each


def texts_of(value: Any) -> Iterator[str]:
    """Every text in a JSON value, including keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield key
            yield from texts_of(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from texts_of(each)


def with_texts(value: Any, change: Callable[[str], str]) -> Any:
    """A JSON value with ``change`` of each text in it, but no key."""
    if isinstance(value, list):
        return [with_texts(each, change) for each in value]
    if isinstance(value, Mapping):
        return {key: with_texts(each, change) for key, each in value.items()}
    return change(value) if isinstance(value, str) else value
