"""Standard output, which is the answer, and standard error, which is everything else."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from functools import cache
from json import JSONEncoder
from typing import Any, Final, Literal, TextIO, TypeAlias

Style: TypeAlias = Literal["plain", "dim", "bold", "red", "yellow", "green"]

_CODES: Final[Mapping[Style, str]] = {"dim": "2", "bold": "1", "red": "31", "yellow": "33", "green": "32"}
_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_ESCAPE: Final = re.compile("\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)|[@-Z\\\\-_])")


def answer(text: str, *, end: str = "\n") -> None:
    """Write to standard output at once."""
    sys.stdout.write(text + end)
    sys.stdout.flush()


def complain(text: str, style: Style = "plain") -> None:
    """Write a line to standard error, in colour where that is a terminal that wants it."""
    sys.stdout.flush()
    sys.stderr.write(styled(text, style, sys.stderr) + "\n")
    sys.stderr.flush()


def styled(text: str, style: Style, stream: TextIO) -> str:
    """``text`` in ``style`` where ``stream`` shows colours, else as it is."""
    code = _CODES.get(style)
    return f"\x1b[{code}m{text}\x1b[0m" if code and shows_colours(stream) else text


def shows_colours(stream: TextIO) -> bool:
    """Whether ``stream`` is a terminal that shows styles and whose user did not refuse them (no-color.org)."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def is_terminal(stream: TextIO) -> bool:
    """Whether a person is at the other end; at a closed stream there is nobody."""
    try:
        return stream.isatty()
    except ValueError:
        return False


def printable(text: str) -> str:
    """``text`` as it may go to a terminal: without escape sequences and control characters but newline and tab.

    What a model or a tool writes must not move the cursor, set a title or press keys.
    """
    return _CONTROL.sub("", _ESCAPE.sub("", text)) if _CONTROL.search(text) else text


def as_json(value: Any, *, indent: int | None = 2) -> str:
    """``value`` as JSON text, Unicode as it is."""
    return _encoder(indent).encode(value)


@cache
def _encoder(indent: int | None) -> JSONEncoder:
    return JSONEncoder(ensure_ascii=False, indent=indent, default=str)
