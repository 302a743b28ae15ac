"""The current runs of an agent: at most one per session, each with a stream of its events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine

from zeus_runtime.errors import BusyError
from zeus_runtime.events import Event, RunCompleted, RunFailed
from zeus_runtime.run.turn import interrupted


class Running:
    """An agent's runs by session."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._ends: set[asyncio.Task[None]] = set()

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
        while running := {*self._tasks.values(), *self._ends}:
            await asyncio.wait(running)
            await asyncio.sleep(0)  # the ends of those runs begin

    async def events(
        self,
        session: str,
        work: Callable[[], Coroutine[None, None, None]],
        emitted: asyncio.Queue[Event | None],
        *,
        emit: Callable[[Event], None],
        ended: Callable[[], Awaitable[None]],
    ) -> AsyncGenerator[Event, None]:
        """Start a run and yield its events, the terminal event last. Closing the iterator early cancels the run.

        Args:
            work: the run; it emits exactly one terminal event, unless it is cancelled before its first step.
            emitted: receives the events from ``emit``, already masked.
            ended: called when the run has ended in any way.
        """
        task = asyncio.create_task(work(), name=f"run {session}")
        self._tasks[session] = task

        is_over = asyncio.Event()

        async def end() -> None:
            try:
                await ended()
            finally:
                del self._tasks[session]
                is_over.set()
                if task.cancelled():  # before its first step
                    emit(interrupted(session, {}))
                emitted.put_nowait(None)

        def begin_end(_task: asyncio.Task[None]) -> None:
            ending = asyncio.create_task(end(), name=f"end of the run {session}")
            self._ends.add(ending)
            ending.add_done_callback(self._ends.discard)

        # Not by the task itself, which may be cancelled before it begins.
        task.add_done_callback(begin_end)
        terminal: Event | None = None
        try:
            while (event := await emitted.get()) is not None:
                # Held back until the task has ended: its reader may begin the session's next run at once.
                if isinstance(event, RunCompleted | RunFailed):
                    terminal = event
                else:
                    yield event
            if not task.cancelled():
                task.result()
        finally:
            if not task.done():
                _cancel_once(task)
            await is_over.wait()
        assert terminal is not None
        yield terminal


def _cancel_once(task: asyncio.Task[None]) -> None:
    # A second cancel would interrupt the graph's own cleanup, and leave its tasks running.
    if not task.cancelling():
        task.cancel()
