"""Rate limits: a burst at once, then one more after each interval."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

_LOOKS: Final = (5, 30.0)
"""How many changes of a server's tools are read at once, and the seconds until one more: each changes the prefix."""


class Pace:
    """A token bucket. Pure: the time is passed in.

    Args:
        burst: how many tokens may be taken at once.
        seconds: the time until one more token is available.
    """

    def __init__(self, burst: int, seconds: float) -> None:
        self._burst = burst
        self._seconds = seconds
        self._left = float(burst)
        self._looked_at: float | None = None

    def wait_seconds(self, now: float) -> float:
        """Take a token and return 0; if there is none, return the seconds until one is available.

        Args:
            now: seconds of a monotonic clock.
        """
        if self._looked_at is not None:
            self._left = min(self._burst, self._left + (now - self._looked_at) / self._seconds)
        self._looked_at = now
        if self._left >= 1:
            self._left -= 1
            return 0.0
        return (1 - self._left) * self._seconds


class RefreshLimit:
    """Limits how often a server's tools are read again: a server that reports a change after each reading never stops.

    Args:
        wake: called when a delayed reading may be made.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._pace = Pace(*_LOOKS)
        self._later: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Start a connection: cancel a delayed reading."""
        if self._later is not None:
            self._later.cancel()
        self._later = None

    def now(self) -> bool:
        """Whether to read now; if not, ``wake`` is called later."""
        # A delayed reading covers all changes until then.
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
