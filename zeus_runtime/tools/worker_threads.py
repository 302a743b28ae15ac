"""The one place where synchronous tool functions leave the event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


async def in_thread(function: Callable[..., T], /, **arguments: Any) -> T:
    """Run ``function(**arguments)`` in a new daemon thread; return its result or raise its exception.

    Each call has its own thread instead of an executor's: a call that hangs then neither blocks a worker of the others
    nor prevents the process from ending. A cancelled call returns at once; its thread ends when its function does.
    """
    import asyncio
    import contextvars
    import threading

    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(outcome: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(outcome)  # type: ignore[arg-type]

    def report(outcome: T | None, error: BaseException | None) -> None:
        if not loop.is_closed():
            try:
                loop.call_soon_threadsafe(settle, outcome, error)
            except RuntimeError:
                # Closed in the meantime: no caller waits for this call any more.
                return

    def work() -> None:
        try:
            outcome = context.run(function, **arguments)
        except StopIteration as error:
            # A future refuses StopIteration: it would end the coroutine that awaits it.
            report(None, RuntimeError(f"StopIteration: {error}"))
        except BaseException as error:  # noqa: BLE001 - every outcome belongs to the awaiting coroutine
            report(None, error)
        else:
            report(outcome, None)

    context = contextvars.copy_context()
    threading.Thread(
        target=work, name=f"zeus-tool-{getattr(function, '__name__', 'call')}", daemon=True
    ).start()
    return await future
