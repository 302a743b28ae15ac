"""Short pieces of texts, in one line."""

from __future__ import annotations

from itertools import accumulate
from typing import Final

from zeus_runtime.cutting import unwrapped

EXCERPT_CHARACTERS: Final = 80


def excerpt(text: str) -> str:
    """The beginning of ``text``, in one line."""
    line = unwrapped(text[: 4 * EXCERPT_CHARACTERS])
    return line if len(line) <= EXCERPT_CHARACTERS else line[: EXCERPT_CHARACTERS - 1] + "…"


def around(text: str, wanted: str) -> str:
    """The surroundings of ``wanted``, which is case-folded, in ``text``, in one line."""
    at = max(0, text.casefold().find(wanted))
    # Case folding turns some letters into two (ß), so a place in the folded text is not the place in the text.
    ends = accumulate(len(letter.casefold()) for letter in text)
    place = next((place for place, end in enumerate(ends) if end > at), 0)
    start = max(0, place - EXCERPT_CHARACTERS // 3)
    piece = unwrapped(text[start : place + len(wanted) + EXCERPT_CHARACTERS // 2])
    return ("…" if start else "") + piece
