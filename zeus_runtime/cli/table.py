"""Rows as aligned text columns that fit the terminal."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias
from unicodedata import category, east_asian_width

from zeus_runtime.cli.streams import terminal_columns
from zeus_runtime.escaping import terminal_line, terminal_text

_Measure: TypeAlias = Callable[[str], int]

_NARROWEST: Final = 12
"""No column is made narrower than this; a terminal that is too small for all of them breaks the lines."""

_GAP: Final = 2
_BLANKS: Final = re.compile("(?: |\t|\r?\n)+")


def table(
    rows: Sequence[Sequence[str]], header: Sequence[str] = (), *, indent: str = "", width: int | None = None
) -> str:
    """``rows`` under ``header``, columns two spaces apart, no line ending in a space.

    Where the lines are longer than ``width``, the widest columns become narrower: their cells break at spaces, and a
    word that is too long ends in ``…``.

    Args:
        rows: cells; unseen characters in them show as escapes.
        header: column titles; none by default.
        indent: what every line begins with.
        width: columns of a line; by default those of the terminal, unlimited where there is none.
    """
    most = terminal_columns() if width is None else width
    cells = [[terminal_line(cell) for cell in row] for row in ([header, *rows] if header else rows)]
    lines = _lines(cells, indent, most, columns)
    if most is not None and any(most_columns(line) > most for line in lines):
        lines = _lines(cells, indent, most, most_columns)
    return "\n".join(lines)


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
    if text.isascii():
        return len(text)
    return columns(text) + sum(
        char > "\x7f" and category(char)[0] in "SN" and east_asian_width(char) not in "WF" for char in text
    )


def shortened(text: str, most: int) -> str:
    """``text`` in one line of at most ``most`` columns, ``…`` at a cut; unseen characters show as escapes."""
    line = one_line(text)
    return line if most_columns(line) <= most else _cut(line, most)


def one_line(text: str) -> str:
    """``text`` with one space for each run of spaces, tabs and line ends; unseen characters show as escapes."""
    return _BLANKS.sub(" ", terminal_text(text)).strip(" ")


def _cut(line: str, most: int) -> str:
    line = line[: max(0, most - 1)]
    while line and most_columns(line) > most - 1:
        line = line[:-1]
    return line + "…"


def _lines(cells: Sequence[Sequence[str]], indent: str, most: int | None, measure: _Measure) -> list[str]:
    """The lines of a table, its cells measured by ``measure``."""
    widths = [max(map(measure, column)) for column in zip(*cells, strict=True)]
    if most is not None:
        widths = _narrowed(widths, most - len(indent) - _GAP * (len(widths) - 1))

    def padded(cell: str, width: int) -> str:
        return cell + " " * (width - measure(cell))

    return [
        (indent + (" " * _GAP).join(map(padded, parts, widths))).rstrip()
        for row in cells
        for parts in _broken(row, widths, measure)
    ]


def _narrowed(widths: Sequence[int], room: int) -> list[int]:
    """The widths with the widest ones cut to one size, so that their sum is at most ``room``."""
    for limit in range(max(widths, default=0), _NARROWEST, -1):
        if sum(min(width, limit) for width in widths) <= room:
            return [min(width, limit) for width in widths]
    return [min(width, _NARROWEST) for width in widths] if sum(widths) > room else list(widths)


def _broken(line: Sequence[str], widths: Sequence[int], measure: _Measure) -> list[list[str]]:
    """The lines that one row takes."""
    cells = [_wrapped(cell, width, measure) for cell, width in zip(line, widths, strict=True)]
    height = max(map(len, cells), default=1)
    return [[cell[place] if place < len(cell) else "" for cell in cells] for place in range(height)]


def _wrapped(cell: str, width: int, measure: _Measure) -> list[str]:
    if measure(cell) <= width:
        return [cell]
    lines: list[str] = []
    for word in cell.split(" "):
        if lines and measure(lines[-1]) + 1 + measure(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word if measure(word) <= width else _cut(word, width))
    return lines
