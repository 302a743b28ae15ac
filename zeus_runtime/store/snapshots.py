"""How a session stood when its turns began and ended, for whoever takes it up: cursors, not messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from sqlalchemy import Connection, Table, func, insert, select

from zeus_runtime.store.approvals import withdraw_in
from zeus_runtime.store.fencing import owning, reading
from zeus_runtime.store.tables import EditRow, MessageRow, SnapshotRow

if TYPE_CHECKING:
    from zeus_runtime.store.thread_log import ThreadLog
    from zeus_runtime.store.threads import Thread

_message = MessageRow.__table__  # type: ignore[attr-defined]
_edit = EditRow.__table__  # type: ignore[attr-defined]
_snapshot = SnapshotRow.__table__  # type: ignore[attr-defined]

Reason: TypeAlias = Literal["turn-start", "complete", "interrupted", "error", "approval", "manual"]


@dataclass(frozen=True)
class Snapshot:
    """How a session stood at one moment.

    Args:
        number: counts from 1 within the thread.
        at_seq: the last message that was written.
        edits: the last edit's number.
        run_id: whose moment it was.
        reason: why it was taken down: a turn began or ended (``approval``: until somebody decides), or (``manual``)
            the user went back.
        created_ms: when, in UTC milliseconds.
    """

    number: int
    at_seq: int
    edits: int
    run_id: str
    reason: Reason
    created_ms: int


def take_snapshot(connection: Connection, thread: Thread, run_id: str, reason: Reason, now_ms: int) -> None:
    """Take down how the thread stands now, in a transaction that does more."""

    def last(table: Table, name: str) -> Any:
        highest = select(func.coalesce(func.max(table.c[name]), 0)).where(table.c.thread == thread.key)
        return highest.scalar_subquery()

    row = {
        "thread": thread.key,
        "number": last(_snapshot, "number") + 1,
        "at_seq": last(_message, "seq"),
        "edits": last(_edit, "number"),
        "run_id": run_id,
        "reason": reason,
        "created_ms": now_ms,
    }
    connection.execute(insert(_snapshot).values(row))


async def end_turn(log: ThreadLog, thread: Thread, run_id: str, reason: Reason) -> None:
    """Mark the thread as used now, and take a snapshot of how a run left it.

    Questions that a completed run has left open are withdrawn, its sub-agents' too: their calls got results otherwise
    (what they would have called is not there any more), so no decision could have an effect.

    Raises:
        LogConflictError: another process has taken the session.
    """

    def work(connection: Connection) -> None:
        log.touch_in(connection, thread)
        take_snapshot(connection, thread, run_id, reason, log.now_ms())
        if reason == "complete":
            withdraw_in(connection, thread.session)

    await owning(log.database, thread, "the end of a turn", work)


async def snapshots(log: ThreadLog, thread: Thread) -> Sequence[Snapshot]:
    """How the session stood at the beginning and end of each of its turns."""
    names = ("number", "at_seq", "edits", "run_id", "reason", "created_ms")
    query = select(*(_snapshot.c[name] for name in names)).where(_snapshot.c.thread == thread.key)
    return await reading(
        log.database,
        thread,
        lambda connection: [Snapshot(*row) for row in connection.execute(query.order_by(_snapshot.c.number))],
    )
