"""The runs of an agent at this moment: one for a session at most, each heard as a stream of its events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine

from zeus_runtime.errors import UsageError
from zeus_runtime.events import Event, RunCompleted, RunFailed
from zeus_runtime.run.turn import interrupted


class Running:
    """An agent's runs by session."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def __contains__(self, session: object) -> bool:
        return session in self._tasks

    def refuse(self, session: str) -> None:
        """See to it that nothing runs on ``session``.

        Raises:
            UsageError: something does.
        """
        if session in self._tasks:
            raise UsageError(
                f"the session {session} is running", remedy="Wait for it, cancel it, or use another session."
            )

    def cancel(self, session: str) -> bool:
        """Stop what runs on ``session``; False if nothing does."""
        task = self._tasks.get(session)
        if task is None:
            return False
        _cancel_once(task)
        return True

    async def aclose(self) -> None:
        """Stop everything, and wait for its end."""
        for task in self._tasks.values():
            _cancel_once(task)
        if self._tasks:
            await asyncio.wait(self._tasks.values())

    async def events(
        self,
        session: str,
        work: Callable[[], Coroutine[None, None, None]],
        emitted: asyncio.Queue[Event | None],
        *,
        emit: Callable[[Event], None],
        ended: Callable[[], None],
    ) -> AsyncGenerator[Event, None]:
        """Start a run and give what it emits, the terminal event last. Closed early, the run is cancelled.

        Args:
            work: the run; it emits exactly one terminal event, unless it is cancelled before its first step.
            emitted: what ``emit`` puts there, as it is shown.
            ended: called when the run has ended, however it did.
        """
        task = asyncio.create_task(work(), name=f"run {session}")
        self._tasks[session] = task

        def end(task: asyncio.Task[None]) -> None:
            del self._tasks[session]
            ended()
            if task.cancelled():  # before its first step
                emit(interrupted(session, {}))
            emitted.put_nowait(None)

        task.add_done_callback(end)
        terminal: Event | None = None
        try:
            while (event := await emitted.get()) is not None:
                if isinstance(event, RunCompleted | RunFailed):
                    terminal = event
                else:
                    yield event
            if not task.cancelled():
                task.result()
        finally:
            if not task.done():
                _cancel_once(task)
                await asyncio.wait([task])
        assert terminal is not None
        yield terminal


def _cancel_once(task: asyncio.Task[None]) -> None:
    # A second cancel would end the graph's own cleaning up, and leave its tasks behind.
    if not task.cancelling():
        task.cancel()
