"""Read a stored session for the context commands: log, edits, ledger; unreadable parts are reported and skipped."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from zeus_runtime.cli.log import with_log
from zeus_runtime.errors import UsageError

if TYPE_CHECKING:
    from zeus_runtime.cli.process import Process
    from zeus_runtime.context.inspection import Trace
    from zeus_runtime.context.replay.recordings import Recording
    from zeus_runtime.plan.validated import Checked
    from zeus_runtime.store.thread_log import ThreadLog

T = TypeVar("T")


def read_trace(process: Process, checked: Checked, session: str | None, *, agent: str | None) -> Trace:
    """A session with its ledger; the latest of ``agent`` (of any, if None) by default.

    Raises:
        UsageError: there is no such session.
    """

    from zeus_runtime.sessions.context_trace import context_trace

    async def work(log: ThreadLog) -> Trace:
        return await context_trace(log, checked, session, agent)

    return _read(process, checked, work, shows=True)


def read_recordings(process: Process, checked: Checked, sessions: Sequence[str]) -> Sequence[Recording]:
    """Sessions as they were recorded, whole.

    Raises:
        UsageError: there is no such session.
    """

    from zeus_runtime.sessions.session_recording import session_recording

    async def work(log: ThreadLog) -> list[Recording]:
        return [await session_recording(log, session) for session in sessions]

    return _read(process, checked, work)


def _read(
    process: Process, checked: Checked, work: Callable[[ThreadLog], Awaitable[T]], *, shows: bool = False
) -> T:
    found = with_log(process, checked, work, shows=shows)
    if found is None:
        raise UsageError(
            f"the agent {checked.config.name!r} has no session yet",
            remedy=f"There is no database {checked.config.storage.url}.",
        )
    return found
