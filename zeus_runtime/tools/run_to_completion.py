"""Work that is awaited to its end, because half of it would leave something behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import TypeVar

T = TypeVar("T")


async def all_tried(*works: Callable[[], Awaitable[object]]) -> None:
    """Do each work in order, also after one that fails; then raise the last error, with the earlier as its context."""
    async with AsyncExitStack() as stack:
        # A stack is left in the reverse order.
        for each in reversed(works):
            stack.push_async_callback(each)


async def finished(work: Awaitable[T]) -> T:
    """Await ``work`` to its end, however often this is cancelled meanwhile; then it is cancelled after it."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            # An error of the work leaves the loop here, also after a cancellation, and replaces it.
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return task.result()
