"""A named pattern, what tells early that it cannot match, and what looks closer at what it finds."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from re import Match, Pattern


class NamedPattern(NamedTuple):
    """A pattern with a name.

    Args:
        name: its name, which is safe to log.
        signs: texts in lower case; a text (``lowered``) that contains none of them cannot match the pattern.
        pattern: the pattern.
        holds: checks a match more closely; without it every match counts.
    """

    name: str
    signs: tuple[str, ...]
    pattern: Pattern[str]
    holds: Callable[[Match[str]], bool] | None = None

    def finds(self, text: str, low: str) -> bool:
        """Whether ``text``, which is ``low`` in lower case (``lowered``), has it."""
        if not any(map(low.__contains__, self.signs)):
            return False
        return any(self.holds is None or self.holds(match) for match in self.pattern.finditer(text))


def rule(
    name: str, signs: str, pattern: str, holds: Callable[[Match[str]], bool] | None = None
) -> NamedPattern:
    """A rule in letters of either case.

    Args:
        signs: with ``|`` between; empty where nothing tells early.
    """
    return NamedPattern(name, tuple(signs.split("|")), re.compile(pattern, re.IGNORECASE), holds)


def exact(
    name: str, signs: str, pattern: str, holds: Callable[[Match[str]], bool] | None = None
) -> NamedPattern:
    """A rule in the letters as they are written, the signs in lower case all the same."""
    return NamedPattern(name, tuple(signs.split("|")), re.compile(pattern), holds)
