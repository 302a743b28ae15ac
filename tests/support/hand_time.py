"""The event loop's time, moved by hand: what a limit counts is what the test says, however slow the machine is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final
from unittest.mock import patch

_QUICKER: Final = 50
"""How many times as quickly as the clock on the wall time goes on by itself at most."""


class HandTime:
    """The time of the running loop, in seconds; it stands until it is moved."""

    def __init__(self) -> None:
        self.now = asyncio.get_running_loop().time()

    async def passes(self, seconds: float) -> None:
        """Move it on at once; whatever was due meanwhile has happened when this returns."""
        self.now += seconds
        for _ in range(5):
            await asyncio.sleep(0)

    async def goes_on(self) -> None:
        """Let it pass quickly until this is cancelled; threads and other processes have some time too meanwhile."""
        while True:
            begun = time.monotonic()
            time.sleep(0.001)  # noqa: ASYNC251 - the loop's time stands; who works beside it is to come on
            await self.passes(min(0.1, _QUICKER * (time.monotonic() - begun)))


@contextmanager
def moved_by_hand() -> Iterator[HandTime]:
    """While inside, no time passes on the running loop but by hand; afterwards it goes on from there by itself."""
    loop = asyncio.get_running_loop()
    real = loop.time
    hand = HandTime()
    loop.time = lambda: hand.now  # type: ignore[method-assign]
    try:
        yield hand
    finally:
        ahead = hand.now - real()
        loop.time = lambda: real() + ahead  # type: ignore[method-assign]


@contextmanager
def leaps() -> Iterator[Callable[[float], None]]:
    """What lets so many seconds pass at once on the loop that runs then; any thread may call it.

    For what has a loop of its own. Between the leaps time passes by itself.
    """
    real = asyncio.BaseEventLoop.time
    ahead = 0.0
    loops: set[asyncio.AbstractEventLoop] = set()

    def now(loop: asyncio.BaseEventLoop) -> float:
        loops.add(loop)
        return real(loop) + ahead

    def leap(seconds: float) -> None:
        nonlocal ahead
        ahead += seconds
        for each in list(loops):
            with suppress(RuntimeError):  # it is closed
                each.call_soon_threadsafe(lambda: None)

    with patch.object(asyncio.BaseEventLoop, "time", now):
        yield leap
