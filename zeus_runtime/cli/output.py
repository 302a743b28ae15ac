"""All that commands print as tables, facts or JSON: one layout, one conversion to JSON, one masking of secrets."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from json import JSONEncoder
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from zeus_runtime.cli.streams import answer, complain, reader_columns, terminal_columns
from zeus_runtime.columns import columns, cut_line, hanging, most_columns, shortened
from zeus_runtime.escaping import json_text, terminal_line, utf8_text
from zeus_runtime.frozen import dataclass
from zeus_runtime.strict_json import plain_json

if TYPE_CHECKING:
    from zeus_runtime.cli.process import Process
    from zeus_runtime.columns import Style

_Measure: TypeAlias = Callable[[str], int]
Mask: TypeAlias = Callable[[Any], Any]
"""Masks the secrets in a JSON value or a text."""

_NARROWEST: Final = 12
"""No column is made narrower than this; a terminal that is too small for all of them breaks the lines."""

_MOST_LINES: Final = 8
"""Of a cell's word that is broken: more than 40 columns together, so that a longer one is cut with its size."""
_GAP: Final = 2
_BREAK: Final = re.compile("(?<=[^ ]) ")
"""Where a cell may break. Further blanks begin the next line, where they can be seen."""


class ShortCell(str):
    """A cell of at most ``most`` columns: cut by ``shortened``, but only when the secrets in it are masked."""

    most: int

    def __new__(cls, text: str, most: int) -> ShortCell:
        made = super().__new__(cls, text)
        made.most = most
        return made


@dataclass(frozen=True)
class TextTable:
    """Rows in aligned columns, two spaces apart; no line ends in a space.

    Args:
        rows: cells. Facts are rows of a name and a value.
        header: column titles; none by default.
        indent: the beginning of every line.
        below: for each row, the rows under it: two spaces further in, with columns of their own.
    """

    rows: Sequence[Sequence[str]]
    header: Sequence[str] = ()
    indent: str = ""
    below: Sequence[Sequence[Sequence[str]]] = ()

    def text(self, *, width: int | None = None, mask: Mask | None = None) -> str:
        """The lines; unseen characters show as escapes.

        Where the lines are longer than ``width``, the widest columns become narrower: their cells break at spaces, and
        a word that is too long ends in ``…``.

        Args:
            width: columns of a line; by default those of the terminal, unlimited where there is none.
            mask: masks each cell before it can be cut, since half of a secret cannot be recognised.
        """
        most = terminal_columns() if width is None else width

        def laid_out(rows: Sequence[Sequence[str]], indent: str) -> list[list[str]]:
            return _fitted(
                [[terminal_line(_shown_cell(cell, mask)) for cell in row] for row in rows], indent, most
            )

        lines = laid_out([self.header, *self.rows] if self.header else self.rows, self.indent)
        if self.below:
            under = iter(laid_out([row for rows in self.below for row in rows], f"{self.indent}  "))
            for own, rows in zip(lines[-len(self.rows) :], self.below, strict=True):
                own += [line for _ in rows for line in next(under)]
        return "\n".join(line for row in lines for line in row)


def _shown_cell(cell: str, mask: Mask | None) -> str:
    masked = str(mask(cell) if mask else cell)
    return shortened(masked, cell.most) if isinstance(cell, ShortCell) else masked


Shown: TypeAlias = str | TextTable | Sequence[str | TextTable]
"""An answer for people: texts and tables, each on lines of its own."""


def tell(
    process: Process,
    value: Any,
    shown: Callable[[], Shown],
    *,
    as_object: bool,
    nothing: str = "",
    mask: Mask | None = None,
) -> None:
    """Print an answer without the secrets that ``process`` knows.

    Args:
        value: the answer for programs, as ``as_json`` takes it.
        shown: makes the answer for people.
        as_object: whether programs read it.
        nothing: the note to print instead of a table without rows.
        mask: by default ``process.secrets.json``.
    """
    mask = mask or process.secrets.json
    if as_object:
        answer(as_json(value, mask=mask))
        return
    made = shown()
    if nothing and isinstance(made, TextTable) and not made.rows:
        complain(nothing)
    else:
        answer(rendered(made, mask=mask))


def complain_table(table: TextTable, *, mask: Mask | None = None) -> None:
    """Write a table to standard error."""
    complain(table.text(width=terminal_columns(sys.stderr), mask=mask), laid_out=True)


def complain_masked(process: Process, text: str, style: Style = "plain") -> None:
    """Write one line to standard error without the secrets that ``process`` knows; a line end in it is an escape."""
    complain(terminal_line(process.redact(text)), style)


def rendered(shown: Shown, *, mask: Mask | None = None) -> str:
    """An answer for people as text, with escapes for what cannot be seen also in a pipe, such as to a pager.

    A line that is too long for the reader's terminal continues after a dotted bar, since the terminal would begin the
    rest at the margin, where foreign text could look like a line of Zeus's.
    """
    parts = [shown] if isinstance(shown, str | TextTable) else shown
    return "\n".join(
        part.text(mask=mask)
        if isinstance(part, TextTable)
        else _folded(utf8_text(mask(part) if mask else part))
        for part in parts
    )


def _folded(text: str) -> str:
    width = reader_columns()
    return text if width is None else "\n".join(folded_lines(text.split("\n"), width))


def folded_lines(lines: Iterable[str], width: int | None) -> Iterator[str]:
    """The lines for a terminal; one that is too long for it continues after a dotted bar.

    Args:
        width: columns of a line; None where there is no terminal.
    """
    # Not at import: `validate` and `plan` of a preset fold nothing.
    from zeus_runtime.tools.question import StyledLine, folded

    return (part.text for line in lines for part in folded(StyledLine(line), width))


def as_json(value: Any, *, indent: int | None = 2, mask: Mask | None = None) -> str:
    """``value`` as JSON text: letters of all scripts as they are, unseen characters as ``\\uXXXX``.

    Args:
        value: JSON values, dataclasses (by their fields) and times (ISO 8601); anything else becomes its ``str``.
        indent: spaces for each level; None: all in one line.
        mask: masks the secrets in it.
    """
    # Masked as a value and not as text: in JSON, a secret with a quote or a line end is written otherwise.
    return json_text(_encoder(indent).encode(value if mask is None else mask(plain_json(value))))


def local_time(at: datetime | int) -> str:
    """A time, or milliseconds since 1970, as ``2026-01-02 03:04`` in local time."""
    moment = datetime.fromtimestamp(at / 1000, UTC) if isinstance(at, int) else at
    return moment.astimezone().strftime("%Y-%m-%d %H:%M")


@cache
def _encoder(indent: int | None) -> JSONEncoder:
    return JSONEncoder(ensure_ascii=False, indent=indent, default=plain_json)


def padded(text: str, width: int, measure: _Measure = columns) -> str:
    """``text`` with spaces up to ``width`` columns."""
    return text + " " * (width - measure(text))


def _fitted(cells: Sequence[Sequence[str]], indent: str, most: int | None) -> list[list[str]]:
    """The lines of each row of a table."""
    lines = _lines(cells, indent, most, columns)
    # Terminals differ in the width of some characters: if a line could be too long, the wider reading counts.
    if most is not None and any(most_columns(line) > most for row in lines for line in row):
        lines = _lines(cells, indent, most, most_columns)
    return lines


def _lines(
    cells: Sequence[Sequence[str]], indent: str, most: int | None, measure: _Measure
) -> list[list[str]]:
    """The lines of each row, its cells measured by ``measure``."""
    widths = [max(map(measure, column)) for column in zip(*cells, strict=True)]
    if most is not None:
        widths = _narrowed(widths, most - len(indent) - _GAP * (len(widths) - 1))
    return [
        [
            (
                indent
                + (" " * _GAP).join(
                    padded(part, width, measure) for part, width in zip(parts, widths, strict=True)
                )
            ).rstrip()
            for parts in _broken(row, widths, measure)
        ]
        for row in cells
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
    for word in _BREAK.split(cell):
        if lines and measure(lines[-1]) + 1 + measure(word) <= width:
            lines[-1] += f" {word}"
        elif measure(word) <= width:
            lines.append(word)
        else:
            # Broken and not cut, since two names may differ at their ends only.
            lines += hanging(cut_line(word, width * _MOST_LINES), width, "").split("\n")
    return lines
