"""Server-sent events from bytes that arrive in any pieces; linear in their number."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Iterator
from typing import Final

MOST_CHARACTERS: Final = 16 << 20
"""Characters of one event. Larger ones are not an answer."""


class EventTooLongError(ValueError):
    """One event has more than ``MOST_CHARACTERS``."""


class ServerSentEvents:
    """Reads the ``data`` of events; other fields and comments are skipped.

    Lines end with CR, LF or CRLF, which may come in two pieces. Several ``data`` lines of an event are joined with LF.
    """

    def __init__(self) -> None:
        # Incremental, because a piece may end within a character.
        self._decode = getincrementaldecoder("utf-8-sig")(errors="replace").decode
        # Joined once at the line's end: adding each piece to one text would copy the line for every piece.
        self._line: list[str] = []
        self._data: list[str] = []
        self._length = 0
        self._after_cr = False

    def add(self, piece: bytes) -> Iterator[str]:
        """Yield the data of each event that ends in the piece.

        Raises:
            EventTooLongError: an event is too long.
        """
        text = self._decode(piece)
        # A piece may give no text, if it ends within a character; then the next one shows whether LF follows.
        if text and self._after_cr:
            text = text.removeprefix("\n")
            self._after_cr = False
        self._after_cr = self._after_cr or text.endswith("\r")
        *ended, rest = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        for end in ended:
            self._grow(end)
            line = "".join(self._line)
            self._line.clear()
            yield from self._take(line)
        self._grow(rest)

    def end(self) -> Iterator[str]:
        """Yield the data of a last event without the empty line that ends it, as servers that close early send it."""
        yield from self._take("".join(self._line))
        yield from self._take("")
        self._line.clear()

    def _grow(self, text: str) -> None:
        if text:
            self._line.append(text)
            self._length += len(text)
            if self._length > MOST_CHARACTERS:
                raise EventTooLongError(
                    f"an event of the stream has more than {MOST_CHARACTERS:,} characters"
                )

    def _take(self, line: str) -> Iterator[str]:
        if not line:
            self._length = 0
            if self._data:
                yield "\n".join(self._data)
                self._data.clear()
            return
        name, _, value = line.partition(":")
        if name == "data":
            self._data.append(value.removeprefix(" "))
