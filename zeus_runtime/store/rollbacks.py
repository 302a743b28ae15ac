"""Returns to an earlier message; ``branch`` computes their effect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Table, func, insert, select

from zeus_runtime.store.approvals import withdraw_in
from zeus_runtime.store.branch import Rollback
from zeus_runtime.store.fencing import owning, reading
from zeus_runtime.store.snapshots import take_snapshot
from zeus_runtime.store.tables import EditRow, MessageRow, RollbackRow, StepRow

if TYPE_CHECKING:
    from zeus_runtime.store.thread_log import ThreadLog
    from zeus_runtime.store.threads import Thread

_message = MessageRow.__table__  # type: ignore[attr-defined]
_edit = EditRow.__table__  # type: ignore[attr-defined]
_step = StepRow.__table__  # type: ignore[attr-defined]
_rollback = RollbackRow.__table__  # type: ignore[attr-defined]


async def rollbacks(log: ThreadLog, thread: Thread) -> Sequence[Rollback]:
    """Every return to an earlier message, in order."""
    names = ("number", "kept_seq", "last_seq", "edits", "steps", "created_ms")
    query = select(*(_rollback.c[name] for name in names)).where(_rollback.c.thread == thread.key)
    return await reading(
        log.database,
        thread,
        lambda connection: [Rollback(*row) for row in connection.execute(query.order_by(_rollback.c.number))],
    )


async def roll_back(log: ThreadLog, thread: Thread, kept_seq: int) -> Rollback:
    """Set aside every message after ``kept_seq``; the messages themselves stay unchanged.

    Raises:
        LogConflictError: another process has claimed the session.
    """

    def work(connection: Connection) -> Rollback:
        def last(table: Table, name: str) -> int:
            highest = select(func.max(table.c[name])).where(table.c.thread == thread.key)
            return int(connection.execute(highest).scalar() or 0)

        made = Rollback(
            last(_rollback, "number") + 1,
            kept_seq,
            last(_message, "seq"),
            last(_edit, "number"),
            last(_step, "number"),
            log.now_ms(),
        )
        connection.execute(insert(_rollback), {"thread": thread.key, **vars(made)})
        withdraw_in(connection, thread.session)
        log.touch_in(connection, thread)
        take_snapshot(connection, thread, "", "manual", made.created_ms)
        return made

    return await owning(log.database, thread, "a rollback", work)
