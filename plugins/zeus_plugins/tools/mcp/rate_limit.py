"""How often something may happen: some at once, then one in so many seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

_LOOKS: Final = (5, 30.0)
"""Changes of an offer that are looked at at once, and seconds until one more: each changes the prefix."""


class Pace:
    """Grants. Pure: the time is passed in.

    Args:
        burst: how many at once.
        seconds: until one more is granted.
    """

    def __init__(self, burst: int, seconds: float) -> None:
        self._burst = burst
        self._seconds = seconds
        self._left = float(burst)
        self._looked_at: float | None = None

    def wait_seconds(self, now: float) -> float:
        """Take one and return 0, or how long it is until there is one.

        Args:
            now: seconds of a clock that never goes back.
        """
        if self._looked_at is not None:
            self._left = min(self._burst, self._left + (now - self._looked_at) / self._seconds)
        self._looked_at = now
        if self._left >= 1:
            self._left -= 1
            return 0.0
        return (1 - self._left) * self._seconds


class RefreshLimit:
    """When to look again at what a server offers: one that says at every look that it has changed has no end.

    Args:
        wake: called when a look that was put off may be made.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._pace = Pace(*_LOOKS)
        self._later: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """A connection begins: nothing is put off."""
        if self._later is not None:
            self._later.cancel()
        self._later = None

    def now(self) -> bool:
        """Whether to look now; if not, ``wake`` says when."""
        if self._later is not None:
            return False
        loop = asyncio.get_running_loop()
        wait = self._pace.wait_seconds(loop.time())
        if wait > 0:
            self._later = loop.call_later(wait, self._again)
        return wait == 0

    def _again(self) -> None:
        self._later = None
        self._wake()
