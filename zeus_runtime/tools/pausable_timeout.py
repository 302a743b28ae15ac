"""A time limit that stands still while a person is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Self


class Clock:
    """``asyncio.timeout`` whose time does not pass while ``standing_still``; it raises TimeoutError likewise.

    Args:
        seconds: how long what is inside may take; None: for ever.
    """

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._limit = asyncio.timeout(None)
        self._runs = False
        self._waiting = 0
        self._left_seconds: float | None = None

    async def __aenter__(self) -> Self:
        self._limit = asyncio.timeout(self._seconds)
        await self._limit.__aenter__()
        self._runs = True
        # `standing_still` may have begun before this clock was entered.
        if self._waiting:
            self._stop()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runs = False
        await self._limit.__aexit__(kind, error, trace)

    @property
    def expired(self) -> bool:
        """Whether the time is over."""
        return self._limit.expired()

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """While inside, no time passes; several may be inside at the same time, from any task of the loop."""
        self._waiting += 1
        if self._waiting == 1:
            self._stop()
        try:
            yield
        finally:
            self._waiting -= 1
            if self._waiting == 0:
                self._go_on()

    def _stop(self) -> None:
        if self._runs and not self.expired and (when := self._limit.when()) is not None:
            self._left_seconds = when - asyncio.get_running_loop().time()
            self._limit.reschedule(None)

    def _go_on(self) -> None:
        if self._runs and not self.expired and self._left_seconds is not None:
            self._limit.reschedule(asyncio.get_running_loop().time() + self._left_seconds)
        self._left_seconds = None


@contextmanager
def all_standing_still(clocks: Sequence[Clock]) -> Iterator[None]:
    """While inside, no time passes for any of them."""
    with ExitStack() as stack:
        for each in clocks:
            stack.enter_context(each.standing_still())
        yield
