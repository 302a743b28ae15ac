"""The current runs of an agent: at most one per session, each with a stream of its events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine

from zeus_runtime.errors import BusyError
from zeus_runtime.events import Event, RunCompleted, RunFailed
from zeus_runtime.run.turn import interrupted


class Running:
    """An agent's runs by session."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def __len__(self) -> int:
        return len(self._tasks)

    def __contains__(self, session: object) -> bool:
        return session in self._tasks

    def refuse(self, session: str) -> None:
        """Check that no run is active on ``session``.

        Raises:
            BusyError: a run is active.
        """
        if session in self._tasks:
            raise BusyError(
                f"the session {session} is running", remedy="Wait for it, cancel it, or use another session."
            )

    def cancel(self, session: str) -> bool:
        """Cancel the run on ``session``; False if there is none."""
        task = self._tasks.get(session)
        if task is None:
            return False
        _cancel_once(task)
        return True

    async def aclose(self) -> None:
        """Cancel all runs, and wait for their ends."""
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
        """Start a run and yield its events, the terminal event last. Closing the iterator early cancels the run.

        Args:
            work: the run; it emits exactly one terminal event, unless it is cancelled before its first step.
            emitted: receives the events from ``emit``, already masked.
            ended: called when the run has ended in any way.
        """
        # A separate task: a reader that is slow, or stops reading, does not hold up the run.
        task = asyncio.create_task(work(), name=f"run {session}")
        self._tasks[session] = task

        def end(task: asyncio.Task[None]) -> None:
            # Before the stream's end: its reader may begin the next run of the session at once.
            del self._tasks[session]
            ended()
            if task.cancelled():  # before its first step
                emit(interrupted(session, {}))
            # Always last, and without waiting: the queue has no bound.
            emitted.put_nowait(None)

        task.add_done_callback(end)
        terminal: Event | None = None
        try:
            while (event := await emitted.get()) is not None:
                # Held back until the task has ended: its reader may begin the session's next run at once.
                if isinstance(event, RunCompleted | RunFailed):
                    terminal = event
                else:
                    yield event
            # Raises an error from around the run, such as that of `_untraced`; the run itself ends with an event.
            if not task.cancelled():
                task.result()
        finally:
            if not task.done():
                _cancel_once(task)
                # `wait` and not `await task`: a second cancellation of the reader must not reach the run's cleanup.
                await asyncio.wait([task])
        assert terminal is not None
        yield terminal


def _cancel_once(task: asyncio.Task[None]) -> None:
    # A second cancel would interrupt the graph's own cleanup, and leave its tasks running.
    if not task.cancelling():
        task.cancel()
