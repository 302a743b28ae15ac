"""Progress of a running program: its masked output, reported at once and then at most every tenth of a second."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from zeus_runtime.plugin import cut_place

if TYPE_CHECKING:
    import asyncio

    from zeus_runtime.plugin import Redactor

INTERVAL_SECONDS: Final = 0.1
MOST_CHARACTERS: Final = 4_000
"""Most characters of one report; if there is more output, only its end is reported."""


@contextmanager
def told(tell: Callable[[str], object], secrets: Redactor) -> Iterator[Callable[[bytes], None]]:
    """Report a program's output as text while the context is open.

    The context's value is a function that takes the output's next bytes. No output is reported twice. The last piece
    may be missing, because the tool's result contains the output anyway.

    Args:
        tell: called with the next piece of text.
        secrets: masked before a piece is cut, even if a secret arrives in two pieces; a person sees the progress, so
            all that are known.
    """
    import asyncio

    telling = _Telling(tell, secrets, asyncio.get_running_loop())
    try:
        yield telling.hear
    finally:
        telling.close()


class _Telling:
    def __init__(
        self, tell: Callable[[str], object], secrets: Redactor, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._tell = tell
        self._secrets = secrets
        self._loop = loop
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._text = ""
        self._held = ""
        self._timer: asyncio.TimerHandle | None = None

    def hear(self, data: bytes) -> None:
        # The last word waits for the next piece, since it may begin a secret.
        masked, self._held = self._secrets.settled(self._held + self._decoder.decode(data), by_lines=True)
        text = self._text + masked.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        self._text = text[cut_place(text, max(0, len(text) - MOST_CHARACTERS)) :]
        if self._timer is None:
            self._say()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _say(self) -> None:
        self._timer = None
        if self._text:
            text, self._text = self._text, ""
            self._tell(text)
            # It holds the next piece back for the interval; if none comes, `_say` finds no text and sets no timer.
            self._timer = self._loop.call_later(INTERVAL_SECONDS, self._say)
