"""Snapshots of a session when its turns begin and end, for a resume: cursors, not messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from sqlalchemy import Connection, Table, bindparam, func, insert, literal_column, select

from zeus_runtime.store.compiled_statements import Prepared
from zeus_runtime.store.fencing import reading
from zeus_runtime.store.tables import EDIT, MESSAGE, SNAPSHOT

if TYPE_CHECKING:
    from zeus_runtime.store.thread_log import ThreadLog
    from zeus_runtime.store.threads import Thread


Reason: TypeAlias = Literal["turn-start", "complete", "interrupted", "error", "approval", "manual"]


@dataclass(frozen=True)
class Snapshot:
    """The state of a session at one moment.

    Args:
        number: counts from 1 within the session.
        at_seq: the last message that was written.
        edits: the last edit's number.
        run_id: the run whose turn began or ended.
        reason: why it was taken: a turn began or ended (``approval``: it waits for a decision), or (``manual``) the
            user went back.
        created_ms: when, in UTC milliseconds.
    """

    number: int
    at_seq: int
    edits: int
    run_id: str
    reason: Reason
    created_ms: int


def take_snapshot(connection: Connection, thread: Thread, run_id: str, reason: Reason, now_ms: int) -> None:
    """Record the session's current state, inside a larger transaction."""
    row = {"of_thread": thread.key, "of_run": run_id, "for_reason": reason, "now_ms": now_ms}
    _TAKEN.changed(connection, row)


def _last(table: Table, name: str) -> Any:
    highest = select(func.coalesce(func.max(table.c[name]), 0)).where(
        table.c.thread == bindparam("of_thread")
    )
    return highest.scalar_subquery()


# The INSERT itself reads the numbers: a snapshot costs one statement and no round trip for each number.
_TAKEN: Final = Prepared(
    insert(SNAPSHOT).values(
        {
            "thread": bindparam("of_thread"),
            "number": _last(SNAPSHOT, "number") + 1,
            "at_seq": _last(MESSAGE, "seq"),
            "edits": _last(EDIT, "number"),
            "run_id": bindparam("of_run"),
            "reason": bindparam("for_reason"),
            "created_ms": bindparam("now_ms"),
        }
    )
)


def is_waiting_in(connection: Connection, thread: Thread) -> bool:
    """Whether a session's last snapshot says that it waits for a decision, inside a larger transaction."""
    return _REASON.rows(connection, {"of_thread": thread.key})[:1] == [("approval",)]


_REASON: Final = Prepared(
    select(SNAPSHOT.c.reason)
    .where(SNAPSHOT.c.thread == bindparam("of_thread"))
    .order_by(SNAPSHOT.c.number.desc())
    .limit(literal_column("1"))
)


async def snapshots(log: ThreadLog, thread: Thread) -> Sequence[Snapshot]:
    """The session's snapshots, from the beginning and end of each of its turns."""
    names = ("number", "at_seq", "edits", "run_id", "reason", "created_ms")
    query = select(*(SNAPSHOT.c[name] for name in names)).where(SNAPSHOT.c.thread == thread.key)
    return await reading(
        log.database,
        thread,
        lambda connection: [Snapshot(*row) for row in connection.execute(query.order_by(SNAPSHOT.c.number))],
    )
