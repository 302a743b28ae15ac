"""Work that is awaited to its end, because half of it would leave something behind."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import TypeVar

_log = logging.getLogger(__name__)

T = TypeVar("T")


async def finished(work: Awaitable[T]) -> T:
    """Await ``work`` to its end, however often this is cancelled meanwhile; then it is cancelled after it.

    An error of the work is logged if this was cancelled, as nobody else would be told of it.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            # Unlike an await of the task, this neither cancels it nor raises its error.
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None:
        return task.result()
    failure = None if task.cancelled() else task.exception()
    if failure is not None:
        _log.warning("work that went on after its caller was cancelled has failed: %r", failure)
    # Not the failure: a caller that is cancelled must end as cancelled, or its time limits and its stop are lost.
    raise cancelled from failure
