"""A run driven from the command line: its events shown as they come, Ctrl-C and SIGTERM stopping it cleanly."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol, cast

from zeus_runtime.cli.streams import complain
from zeus_runtime.cli.typed_lines import leave_terminal
from zeus_runtime.events import ApprovalRequested, Event, RunCompleted, RunFailed, RunStarted

if TYPE_CHECKING:
    from zeus_runtime.agent.agent import Agent
    from zeus_runtime.cli.approval_prompt import Asking
    from zeus_runtime.cli.views import RunView

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Cancels(Protocol):
    """Cancels the run of a session: an agent, or a service."""

    def cancel(self, session: str) -> bool: ...


async def drive(
    agent: Cancels, events: AsyncIterator[Event], view: RunView, approvals: Asking | None = None
) -> RunCompleted | RunFailed:
    """Show the events of one run and return the last.

    The first SIGINT or SIGTERM cancels the run, whose stream then ends by itself; the second ends the process at once,
    which the thread log survives.

    Args:
        agent: whose run it is.
        events: its stream.
        view: where events go.
        approvals: the way in which the run asks its user.

    Raises:
        UsageError: there is no such session.
    """
    session = ""
    ending: RunCompleted | RunFailed | None = None
    task = asyncio.current_task()
    assert task is not None

    def stop() -> None:
        # Before the first event, or after the last, no run knows of the session: the task itself is cancelled.
        if not (session and agent.cancel(session)):
            task.cancel()

    with _interruptible(stop, view) as interrupted:
        try:
            async with aclosing(cast("AsyncGenerator[Event, None]", events)) as stream:
                async for event in stream:
                    if isinstance(event, RunStarted):
                        session = event.session
                    elif isinstance(event, RunCompleted | RunFailed):
                        ending = event
                    if isinstance(event, ApprovalRequested) and approvals and approvals.waits(event.id):
                        # The question says all that the event's line says.
                        view.close()
                        await approvals.answer(event.id)
                    else:
                        view.show(event)
        except asyncio.CancelledError:
            if not interrupted():
                raise
            # The cancellation is dealt with: a timeout or a task group further out must not count it.
            task.uncancel()
            ending = RunFailed(session, "cancelled", "the run was interrupted before it began", 130)
            view.show(ending)
        finally:
            view.close()
    assert ending is not None, "a stream ends with a terminal event"
    return ending


@contextmanager
def _interruptible(stop: Callable[[], None], view: RunView) -> Iterator[Callable[[], bool]]:
    """While inside, a signal calls ``stop`` and a second one kills; gives a function that says whether one came."""
    loop = asyncio.get_running_loop()
    came: list[int] = []

    def receive(number: int) -> None:
        came.append(number)
        if len(came) == 1:
            stop()
            return
        view.close()
        leave_terminal()
        complain("killed; resume the session with --continue")
        # The process ends by the signal itself, so that a shell sees what ended it.
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    before: dict[signal.Signals, Any] = {}
    try:
        # Where the loop cannot listen (Windows), Ctrl-C is a KeyboardInterrupt as ever.
        with suppress(NotImplementedError):
            for number in _SIGNALS:
                former = signal.getsignal(number)
                loop.add_signal_handler(number, receive, number)
                before[number] = former
        yield lambda: bool(came)
    finally:
        for number, former in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, former)


async def latest(agent: Agent) -> str:
    """The session that ``--continue`` means.

    Raises:
        UsageError: the agent has none.
    """
    from zeus_runtime.errors import UsageError

    session = await agent.latest_session()
    if session is None:
        name = agent.plan.config.name
        raise UsageError(
            f"the agent {name!r} has no session to continue", remedy="`zeus run` with a prompt begins one."
        )
    return session
