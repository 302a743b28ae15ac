"""Read a stored session for the context commands: log, edits, ledger; unreadable parts are reported and skipped."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from zeus_runtime.cli.log import with_log
from zeus_runtime.errors import UsageError
from zeus_runtime.store.branch import line_of

if TYPE_CHECKING:
    from zeus_runtime.cli.process import Process
    from zeus_runtime.context.inspection import Trace
    from zeus_runtime.context.replay.recordings import Recording
    from zeus_runtime.models.interface import ToolSchema
    from zeus_runtime.plan.validated import Checked
    from zeus_runtime.store.thread_log import ThreadLog
    from zeus_runtime.store.threads import Thread

T = TypeVar("T")


def read_trace(process: Process, checked: Checked, session: str | None, *, agent: str | None) -> Trace:
    """A session with its ledger; the latest of ``agent`` (of any, if None) by default.

    Raises:
        UsageError: there is no such session.
    """

    from zeus_runtime.sessions.context_trace import context_trace

    async def work(log: ThreadLog) -> Trace:
        return await context_trace(log, checked, session, agent)

    return _read(process, checked, work)


def read_recordings(process: Process, checked: Checked, sessions: Sequence[str]) -> Sequence[Recording]:
    """Sessions as they were recorded, whole.

    Raises:
        UsageError: there is no such session.
    """

    async def work(log: ThreadLog) -> list[Recording]:
        return [await _recording(log, session) for session in sessions]

    return _read(process, checked, work)


async def _recording(log: ThreadLog, session: str) -> Recording:
    from zeus_runtime.context.replay.recordings import recording
    from zeus_runtime.models.messages import from_payload
    from zeus_runtime.store.rollbacks import rollbacks

    thread = await log.find(session)
    line = line_of(await rollbacks(log, thread))
    entries = [entry for entry in await log.read(thread) if line.place(entry.seq) is not None]
    messages = [from_payload(json.loads(entry.payload)) for entry in entries]
    made = recording(session, messages, [entry.created_ms / 1000 for entry in entries])
    return replace(made, tools=await _tools(log, thread))


async def _tools(log: ThreadLog, thread: Thread) -> tuple[ToolSchema, ...]:
    """The tools of a session's last request, as the ledger kept them, without those it no longer knows."""
    from zeus_runtime.context.prompt_cost import fixed_from_json
    from zeus_runtime.models.interface import ToolSchema
    from zeus_runtime.run.stored_thread import last_step

    step = last_step(await log.steps(thread, last=True))
    whole = {} if step is None or not step.fixed else await log.texts(thread, [step.fixed])
    if step is None or step.fixed not in whole:
        return ()
    parts = fixed_from_json(step.fixed, whole[step.fixed]).tools.values()
    texts = await log.texts(thread, [part.digest for part in parts])
    return tuple(ToolSchema(**json.loads(texts[part.digest])) for part in parts if part.digest in texts)


def _read(process: Process, checked: Checked, work: Callable[[ThreadLog], Awaitable[T]]) -> T:
    found = with_log(process, checked, work)
    if found is None:
        raise UsageError(
            f"the agent {checked.config.name!r} has no session yet",
            remedy=f"There is no database {checked.config.storage.url}.",
        )
    return found
