"""The event loop's time, moved by hand: what a limit counts is what the test says, however slow the machine is."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


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
        """Let it pass, a tenth of a second at each turn of the loop, until this is cancelled."""
        while True:
            await self.passes(0.1)


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
