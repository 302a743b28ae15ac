"""Work that is awaited to its end, because half of it would leave something behind."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def all_tried(*works: Callable[[], Awaitable[object]]) -> None:
    """Do each work in order, also after one that fails or is cancelled; then raise the first error, with the others.

    A cancellation goes before errors: its caller waits for it.
    """
    errors: list[BaseException] = []
    for each in works:
        try:
            await each()
        except BaseException as error:  # noqa: BLE001 - raised below, once all is done
            errors.append(error)
    if not errors:
        return
    first = next((each for each in errors if not isinstance(each, Exception)), errors[0])
    for other in errors:
        if other is not first:
            first.add_note(f"Also failed: {type(other).__name__}: {other}")
    raise first


async def finished(work: Awaitable[T]) -> T:
    """Await ``work`` to its end, however often this is cancelled meanwhile; then it is cancelled after it."""
    import asyncio  # modules that only close something are read before a command needs an event loop

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
