"""A stored session as a recording, to play it again under other context policies."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from zeus_runtime.context.prompt_cost import fixed_from_json
from zeus_runtime.context.replay.recordings import Recording, recording
from zeus_runtime.models.interface import ToolSchema
from zeus_runtime.models.messages import from_payload
from zeus_runtime.run.stored_thread import last_step
from zeus_runtime.store.branch import line_of
from zeus_runtime.store.rollbacks import rollbacks

if TYPE_CHECKING:
    from zeus_runtime.store.thread_log import ThreadLog
    from zeus_runtime.store.threads import Thread


async def session_recording(log: ThreadLog, session: str) -> Recording:
    """A stored session as a recording, with the tools of its last request.

    Raises:
        UsageError: there is no such session.
    """
    thread = await log.find(session)
    line = line_of(await rollbacks(log, thread))
    entries = [entry for entry in await log.read(thread) if line.place(entry.seq) is not None]
    messages = [from_payload(json.loads(entry.payload)) for entry in entries]
    made = recording(session, messages, [entry.created_ms / 1000 for entry in entries])
    return replace(made, tools=await _tools(log, thread))


async def _tools(log: ThreadLog, thread: Thread) -> tuple[ToolSchema, ...]:
    """The tools of a session's last request, as the ledger kept them, without those it no longer knows."""
    step = last_step(await log.steps(thread, last=True))
    whole = {} if step is None or not step.fixed else await log.texts(thread, [step.fixed])
    if step is None or step.fixed not in whole:
        return ()
    parts = fixed_from_json(step.fixed, whole[step.fixed]).tools.values()
    texts = await log.texts(thread, [part.digest for part in parts])
    return tuple(ToolSchema(**json.loads(texts[part.digest])) for part in parts if part.digest in texts)
