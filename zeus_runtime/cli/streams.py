"""Standard output, which is the answer, and standard error, which is everything else."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TextIO

from zeus_runtime.columns import hanging, most_columns
from zeus_runtime.command_lines import completed
from zeus_runtime.escaping import terminal_text

if TYPE_CHECKING:
    from zeus_runtime.columns import Style

_CODES: Final[Mapping[Style, str]] = {"dim": "2", "bold": "1", "red": "31", "yellow": "33", "green": "32"}

_INDENT: Final = "  "
_LEAST_COLUMNS: Final = 12

_MASKS: Final[list[Callable[[str], str]]] = [str]
"""Like the streams, a process has one, except that a test runs a command within its own process."""


@contextmanager
def mask_errors_by(mask: Callable[[str], str]) -> Iterator[None]:
    """Inside the block, ``complain`` writes what ``mask`` makes of a text."""
    _MASKS.append(mask)
    try:
        yield
    finally:
        _MASKS.remove(mask)


def answer(
    text: str, *, style: Style = "plain", end: str = "\n", escaped: Callable[[str], str] = terminal_text
) -> None:
    """Write to standard output at once: to a terminal with escapes for what cannot be seen, elsewhere as it is."""
    shown = escaped(text) if is_terminal(sys.stdout) else text
    sys.stdout.write(_styled(shown, style, sys.stdout) + end)
    sys.stdout.flush()


def complain(text: str, style: Style = "plain", *, as_is: bool = False, laid_out: bool = False) -> None:
    """Write a message to standard error, with escapes for what cannot be seen, in colour where the terminal wants it.

    Only its first line begins at the margin, so that no foreign text in it can look like a line of Zeus's.

    Args:
        as_is: whether ``mask_errors_by`` does not apply to it.
        laid_out: whether its lines stay as they are: a table, folded lines, or a command that a user copies.
    """
    text = completed(text)
    shown = terminal_text(text if as_is else _MASKS[-1](text))
    sys.stdout.flush()
    sys.stderr.write(_styled(shown if laid_out else _indented(shown, sys.stderr), style, sys.stderr) + "\n")
    sys.stderr.flush()


def _indented(text: str, stream: TextIO) -> str:
    """``text`` with all lines but the first indented, also those that a terminal would begin."""
    first, *more = text.split("\n")
    lines = [first, *(line if not line or line.startswith(_INDENT) else _INDENT + line for line in more)]
    if is_terminal(stream):
        most = max(_LEAST_COLUMNS, columns_of(stream) - 1)
        lines = [line if most_columns(line) <= most else hanging(line, most, _INDENT) for line in lines]
    return "\n".join(lines)


def _styled(text: str, style: Style, stream: TextIO) -> str:
    code = _CODES.get(style)
    return f"\x1b[{code}m{text}\x1b[0m" if code and shows_colours(stream) else text


def shows_colours(stream: TextIO) -> bool:
    """Whether ``stream`` is a terminal that shows styles and whose user did not refuse them (no-color.org)."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def is_terminal(stream: TextIO) -> bool:
    """Whether a person is at the other end; false for a closed stream."""
    try:
        return stream.isatty()
    except ValueError:
        return False


def can_ask() -> bool:
    """Whether a user can answer at standard input, and sees a question at standard error."""
    return is_terminal(sys.stdin) and is_terminal(sys.stderr)


def terminal_columns(stream: TextIO | None = None) -> int | None:
    """The width of the terminal that shows ``stream``, by default standard output; None if it is not a terminal."""
    shown = stream or sys.stdout
    return columns_of(shown) if is_terminal(shown) else None


def reader_columns() -> int | None:
    """The width of the terminal on which a person reads standard output, also in a pager; None if there is none.

    A pager gets a pipe and shows it where standard error goes, and continues a long line at the margin.
    """
    width = terminal_columns()
    return columns_of(sys.stderr) if width is None and is_terminal(sys.stderr) else width


def columns_of(stream: TextIO) -> int:
    """The width of the terminal that shows ``stream``; otherwise COLUMNS, or 80."""
    try:
        width = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        width = 0
    return width or shutil.get_terminal_size().columns
