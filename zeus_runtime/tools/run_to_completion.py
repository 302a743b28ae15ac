"""Work that is awaited to its end, because half of it would leave something behind."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from zeus_runtime.errors import ZeusError

if TYPE_CHECKING:
    import asyncio

_log = logging.getLogger(__name__)

T = TypeVar("T")


async def all_tried(
    *works: Callable[[], Awaitable[object]] | None, at_once: bool = False, stops: bool = False
) -> None:
    """Do each work in order, also after one that fails or is cancelled; then raise the first error, with the others.

    A cancellation goes before errors: its caller waits for it.

    Args:
        works: None is nothing to do.
        at_once: whether all begin now, so that a slow one does not delay the others. All are awaited to their ends,
            also if the caller is cancelled.
        stops: whether no work begins after a cancellation, such as a user's Ctrl-C.
    """
    errors: list[BaseException] = []
    given: list[Callable[[], Awaitable[object]]] = [each for each in works if each is not None]
    if at_once:
        given = [partial(finished, each) for each in _begun(given)]
    for each in given:
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


def _begun(works: Sequence[Callable[[], Awaitable[object]]]) -> list[asyncio.Task[object]]:
    import asyncio  # as in `finished`

    async def begun(work: Callable[[], Awaitable[object]]) -> object:
        return await work()

    return [asyncio.create_task(begun(each)) for each in works]


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
        _log.warning("work that continued after its caller was cancelled has failed: %r", failure)
    # Not the failure: a caller that is cancelled must end as cancelled, or its time limits and its stop are lost.
    raise cancelled from failure
