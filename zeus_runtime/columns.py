"""Text in the columns of a terminal: how wide it is, and lines cut to fit. Pure."""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias
from unicodedata import category, east_asian_width

from zeus_runtime.cutting import cut_before, unwrapped
from zeus_runtime.escaping import terminal_text

Style: TypeAlias = Literal["plain", "dim", "bold", "red", "yellow", "green"]
"""How a line looks where there are styles."""


_COMMAND: Final = re.compile("`zeus [^`]*`")
_ROOM_FOR_SIZE: Final = 40
TAB_COLUMNS: Final = 8
"""At most so many for a tab."""


def columns(text: str) -> int:
    """How many columns a terminal gives to ``text``."""
    if text.isascii():
        return len(text)
    return sum(
        0 if category(char) in ("Mn", "Me", "Cf") else 2 if east_asian_width(char) in "WF" else 1
        for char in text
    )


def most_columns(text: str) -> int:
    """At most how many columns: on symbols and numbers outside ASCII, terminals and versions of Unicode disagree."""
    tabs = (TAB_COLUMNS - 1) * text.count("\t")
    if text.isascii():
        return len(text) + tabs
    return (
        tabs
        + columns(text)
        + sum(
            char > "\x7f" and category(char)[0] in "SN" and east_asian_width(char) not in "WF"
            for char in text
        )
    )


def shortened(text: str, most: int) -> str:
    """``text`` in one line of at most ``most`` columns, as ``cut_line`` cuts it; unseen characters show as escapes."""
    return cut_line(one_line(text), most)


def shortened_title(title: str, most: int) -> str:
    """As ``shortened``, of a session's title, which is stored cut: the size stays that of the whole."""
    line, former = one_line(title), cut_before(title)
    if former is None or most_columns(line) <= most:
        return cut_line(line, most)
    beginning, size = former
    return _cut(one_line(beginning), most, size)


def one_line(text: str) -> str:
    """``text`` with one space for each run of spaces, tabs and line ends; unseen characters show as escapes."""
    return terminal_text(unwrapped(text))


def hanging(line: str, most: int, indent: str) -> str:
    """``line`` in lines of at most ``most`` columns, divided at blanks where it has some.

    Later lines begin with ``indent``. A terminal would begin a part of a longer line at the margin. A command that a
    user may copy is divided only if it does not fit into a line.
    """
    commands = [each.span() for each in _COMMAND.finditer(line)]
    parts, start, room = [], 0, most
    while start < len(line):
        # A character without a column of its own would let a line have any length.
        end = start + room
        while end > start + 1 and most_columns(line[start:end]) > room:
            end -= 1
        blank = line.rfind(" ", start + 1, end + 1)
        around = next((begin for begin, after in commands if begin < blank < after), 0)
        if (before := line.rfind(" ", start + 1, around)) > start:
            blank = before
        if end < len(line) and blank > start:
            parts.append(line[start:blank])
            start = blank + 1
        else:
            parts.append(line[start:end])
            start = end
        room = max(1, most - len(indent))
    return f"\n{indent}".join(parts)


def cut_line(line: str, most: int, *, size: int | None = None) -> str:
    """``line``, or as much of its beginning as fits into ``most`` columns with ``…`` and the size of the whole.

    Fewer than 40 columns have no room for the size.

    Args:
        size: the characters of the whole, if ``line`` is a part of it.
    """
    if most_columns(line) <= most:
        return line
    return _cut(line, most, len(line) if size is None else size)


def _cut(line: str, most: int, count: int) -> str:
    end = terminal_text(f"… ({count:,} characters)" if most >= _ROOM_FOR_SIZE else "…")
    room = most - len(end)
    line = line[: max(0, room)]
    while line and most_columns(line) > room:
        line = line[:-1]
    return line + end
