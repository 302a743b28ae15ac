"""A named pattern, and what looks closer at what it finds."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from re import Match, Pattern


class Rule(NamedTuple):
    """A pattern with a name.

    Args:
        name: what it finds, as it may stand in a log.
        holds: looks closer at a match; every match counts without it.
    """

    name: str
    pattern: Pattern[str]
    holds: Callable[[Match[str]], bool] | None = None

    def finds(self, text: str) -> bool:
        return any(self.holds is None or self.holds(match) for match in self.pattern.finditer(text))


def rule(name: str, pattern: str, holds: Callable[[Match[str]], bool] | None = None) -> Rule:
    """A rule in letters of either case."""
    return Rule(name, re.compile(pattern, re.IGNORECASE), holds)


def exact(name: str, pattern: str, holds: Callable[[Match[str]], bool] | None = None) -> Rule:
    """A rule in the letters as they are written."""
    return Rule(name, re.compile(pattern), holds)
