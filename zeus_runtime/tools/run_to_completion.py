"""Work that is awaited to its end, because half of it would leave something behind."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from zeus_runtime.errors import ZeusError

_log = logging.getLogger(__name__)

T = TypeVar("T")


async def all_tried(*works: Callable[[], Awaitable[object]], stops: bool = False) -> None:
    """Do each work in order, also after one that fails or is cancelled; then raise the first error, with the others.

    A cancellation goes before errors: its caller waits for it.

    Args:
        stops: whether no work begins after a cancellation, such as a user's Ctrl-C.
    """
    errors: list[BaseException] = []
    for each in works:
        try:
            await each()
        except BaseException as error:  # noqa: BLE001 - raised below, once all is done
            errors.append(error)
            if stops and not isinstance(error, Exception):
                break
    if not errors:
        return
    first = next((each for each in errors if not isinstance(each, Exception)), errors[0])
    for other in errors:
        if other is not first:
            # An error of ours says all that a user needs.
            told = str(other) if isinstance(other, ZeusError) else f"{type(other).__name__}: {other}"
            first.add_note(f"Also failed: {told}")
    raise first


async def finished(work: Awaitable[T]) -> T:
    """Await ``work`` to its end, however often this is cancelled meanwhile; then it is cancelled after it.

    An error of the work is logged if this was cancelled, as nobody else would be told of it.
    """
    import asyncio  # modules that only close something are read before a command needs an event loop

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
