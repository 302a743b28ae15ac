"""A session as stored, for a run to read: messages, edits, rollbacks, and the ledger's last entry."""

from __future__ import annotations

import json
import logging
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from zeus_runtime.context.ledger import StepRecord
from zeus_runtime.errors import NotFoundError
from zeus_runtime.models.content import is_users
from zeus_runtime.models.messages import from_payload
from zeus_runtime.store.branch import SessionBranch, edits_aside, line_of

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from zeus_runtime.config.model import Mode
    from zeus_runtime.store.thread_log import LogEntry, StepEntry, ThreadLog
    from zeus_runtime.store.threads import Thread

_log = logging.getLogger(__name__)

_MODE: Final = "mode"
"""Key of the run's mode in a user message's ``additional_kwargs``."""


@dataclass(frozen=True)
class StoredThread:
    """The stored content of a session; empty by default.

    Args:
        entries: its messages, including those that a rollback set aside.
        edits: the payloads of its admitted edits, in order.
        line: says which of the entries are part of the conversation.
        edits_aside: the numbers of the edits that a rollback set aside.
        rollbacks: the number of rollbacks.
        last_step: the ledger's last entry, if any.
        last_step_ms: when it was written (UTC milliseconds).
    """

    entries: Sequence[LogEntry] = ()
    edits: Sequence[str] = ()
    line: SessionBranch = field(default_factory=SessionBranch)
    edits_aside: Container[int] = ()
    rollbacks: int = 0
    last_step: StepRecord | None = None
    last_step_ms: int = 0


async def read_thread(log: ThreadLog, thread: Thread) -> StoredThread:
    """Read the stored content of a session, in one transaction."""
    from zeus_runtime.store.fencing import reading
    from zeus_runtime.store.rollbacks import rollbacks_in

    steps, made, edits, entries = await reading(
        log.database,
        thread,
        lambda connection: (
            log.steps_in(connection, thread, last=True),
            rollbacks_in(connection, thread),
            log.edits_in(connection, thread),
            log.read_in(connection, thread),
        ),
    )
    return StoredThread(
        entries=entries,
        edits=[payload for _, _, payload in edits],
        line=line_of(made),
        edits_aside=edits_aside(made, [(number, at) for number, at, _ in edits]),
        rollbacks=len(made),
        last_step=last_step(steps),
        last_step_ms=steps[-1].created_ms if steps else 0,
    )


def last_step(entries: Sequence[StepEntry]) -> StepRecord | None:
    """The last of the ledger's entries; from an unreadable one only the number is known."""
    return step_of(entries[-1]) if entries else None


def step_of(entry: StepEntry) -> StepRecord:
    """An entry of the ledger; from an unreadable one only the number is known."""
    try:
        return StepRecord.from_json(entry.payload)
    except ValueError as error:
        _log.warning("entry %s of a session's ledger does not count: %s", entry.number, error)
        return StepRecord(number=entry.number, run_id="", cursor=entry.seq, edits=0)


async def history_of(log: ThreadLog, thread: Thread, *, whole: bool) -> Sequence[BaseMessage]:
    """Every message of a session's conversation, unchanged by any context policy.

    Args:
        whole: whether to include messages that a rollback set aside.
    """
    from zeus_runtime.store.rollbacks import rollbacks

    line = line_of(() if whole else await rollbacks(log, thread))
    return [
        from_payload(json.loads(entry.payload))
        for entry in await log.read(thread)
        if line.place(entry.seq) is not None
    ]


async def messages_after(
    log: ThreadLog, thread: Thread, after: int, limit: int | None
) -> Sequence[tuple[int, LogEntry]]:
    """The messages of a session's conversation after the message ``after``, each with its place; at most ``limit``."""
    from zeus_runtime.store.rollbacks import rollbacks

    line = line_of(await rollbacks(log, thread))
    found: list[tuple[int, LogEntry]] = []
    while limit is None or len(found) < limit:
        entries = await log.read(thread, after=after, limit=limit)
        if not entries:
            break
        places = [(line.place(each.seq), each) for each in entries]
        # A rollback may set many in a row aside, so a full read can bring few; hence the loop.
        found += [(place, each) for place, each in places if place is not None]
        after = entries[-1].seq
    return found[:limit]


async def message_at(log: ThreadLog, thread: Thread, number: int) -> LogEntry:
    """The message at a place of a session's conversation, from 1.

    Raises:
        NotFoundError: the conversation has no such message.
    """
    from zeus_runtime.store.rollbacks import rollbacks

    line = line_of(await rollbacks(log, thread))
    found = await log.read(thread, after=line.seq(number) - 1, limit=1)
    if not found or line.place(found[0].seq) != number:
        raise NotFoundError(f"the session {thread.session} has no message {number}")
    return found[0]


def mode_note(mode: Mode, configured: Mode) -> Mapping[str, Mode]:
    """The note for ``mode_of`` in a user's message; empty where both the run's mode and the config's are ``agent``."""
    return {} if mode == configured == "agent" else {_MODE: mode}


def mode_of(messages: Sequence[BaseMessage]) -> Mode | None:
    """The mode of the last run; None where it was agent mode under a config with agent mode."""
    said = (message for message in reversed(messages) if is_users(message))
    last = next(said, None)
    found: Mode | None = None if last is None else last.additional_kwargs.get(_MODE)
    return found
