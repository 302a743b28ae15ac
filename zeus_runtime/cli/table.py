"""Rows as aligned text columns."""

from __future__ import annotations

from collections.abc import Sequence
from unicodedata import combining, east_asian_width


def table(rows: Sequence[Sequence[str]], header: Sequence[str] = (), *, indent: str = "") -> str:
    """``rows`` under ``header``, columns two spaces apart, no line ending in a space.

    Args:
        rows: cells of one line each.
        header: column titles; none by default.
        indent: what every line begins with.
    """
    lines = [list(header), *map(list, rows)] if header else [list(row) for row in rows]
    widths = [max(map(columns, cells)) for cells in zip(*lines, strict=True)]
    return "\n".join(
        (indent + "  ".join(_padded(cell, width) for cell, width in zip(line, widths, strict=True))).rstrip()
        for line in lines
    )


def columns(text: str) -> int:
    """How many columns a terminal gives to ``text``."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)


def shortened(text: str, most: int) -> str:
    """``text`` in one line of at most ``most`` columns, ``…`` at a cut."""
    line = " ".join(text.split())
    if columns(line) <= most:
        return line
    while line and columns(line) > most - 1:
        line = line[: max(0, min(len(line) - 1, most - 1))]
    return line + "…"


def _padded(cell: str, width: int) -> str:
    return cell + " " * (width - columns(cell))
