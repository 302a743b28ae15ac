"""A process whose output has another encoding than UTF-8."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from zeus_runtime.escaping import limit_to

NARROW = ("ascii", "latin-1", "cp437", "gbk", "shift_jis")


@contextmanager
def output_in(encoding: str | None) -> Iterator[None]:
    """Text is shown for an output in ``encoding``; None for UTF-8."""
    limit_to([encoding])
    try:
        yield
    finally:
        limit_to([])


def read_back(text: str, encoding: str | None) -> str:
    """What a terminal in ``encoding`` makes of ``text``.

    Raises:
        UnicodeEncodeError: the encoding lacks a character.
    """
    return text if encoding is None else text.encode(encoding).decode(encoding)
