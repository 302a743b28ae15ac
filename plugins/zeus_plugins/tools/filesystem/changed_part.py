"""The part of two large texts in which they differ, so that only this part is masked and compared. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

MOST_COMPARED: Final = 400_000
"""Bytes of a text that is compared: a larger one takes too long."""

_CONTEXT: Final = 4
"""Lines around a change: a diff shows three, and says at which line it begins if one more is before them."""
_MARGIN: Final = 50_000
"""Bytes around a change: masking must find a secret that begins before the lines around it."""


class ChangedPart(NamedTuple):
    """Whole lines of two texts; ``first_line`` and ``left`` are as of ``Change``."""

    before: bytes | None
    after: bytes
    first_line: int = 1
    left: tuple[int, int, int] = (0, 0, 0)


def changed_part(before: bytes | None, after: bytes) -> ChangedPart:
    """Two texts, or of large ones the lines in which they differ and those around, and the size of the rest."""
    old = before or b""
    if max(len(old), len(after)) <= MOST_COMPARED:
        return ChangedPart(before, after)
    head = _common(old, after)
    tail = _common_end(old[head:], after[head:])
    start = _lines_before(old, head - _MARGIN)
    end = _lines_after(old, len(old) - tail + _MARGIN)
    part, left = _cut(old[start:end])
    new_part, new_left = _cut(after[start : len(after) - (len(old) - end)])
    return ChangedPart(
        None if before is None else part,
        new_part,
        old.count(b"\n", 0, start) + 1,
        (_count(left), _count(new_left), len(left) + len(new_left)),
    )


def _common(first: bytes, second: bytes) -> int:
    """How many bytes both begin with."""
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _common_end(first: bytes, second: bytes) -> int:
    """How many bytes both end with."""
    return _common(first[::-1], second[::-1])


def _lines_before(text: bytes, place: int) -> int:
    """Where the lines of context before a place begin."""
    place = max(0, place)
    for _ in range(_CONTEXT + 1):
        place = max(0, text.rfind(b"\n", 0, place))
    return place and place + 1


def _lines_after(text: bytes, place: int) -> int:
    """Where the lines of context after a place end."""
    for _ in range(_CONTEXT + 1):
        found = text.find(b"\n", place)
        if found < 0:
            return len(text)
        place = found + 1
    return place


def _cut(text: bytes) -> tuple[bytes, bytes]:
    """The first lines that are not too large to compare, and the others."""
    if len(text) <= MOST_COMPARED:
        return text, b""
    end = text.rfind(b"\n", 0, MOST_COMPARED) + 1
    return text[:end], text[end:]


def _count(text: bytes) -> int:
    return text.count(b"\n") + (bool(text) and not text.endswith(b"\n"))
