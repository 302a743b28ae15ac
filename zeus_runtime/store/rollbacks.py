"""Returns to an earlier message; ``branch`` computes their effect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from sqlalchemy import Connection, Table, bindparam, func, insert, select

from zeus_runtime.store.branch import Rollback
from zeus_runtime.store.compiled_statements import Prepared
from zeus_runtime.store.fencing import owning, reading
from zeus_runtime.store.snapshots import take_snapshot
from zeus_runtime.store.tables import EDIT, MESSAGE, ROLLBACK, STEP
from zeus_runtime.store.turns import give_up_in

if TYPE_CHECKING:
    from zeus_runtime.store.thread_log import ThreadLog
    from zeus_runtime.store.threads import Thread


async def rollbacks(log: ThreadLog, thread: Thread) -> Sequence[Rollback]:
    """Every return to an earlier message, in order."""
    return await reading(log.database, thread, lambda connection: rollbacks_in(connection, thread))


def rollbacks_in(connection: Connection, thread: Thread) -> Sequence[Rollback]:
    """``rollbacks`` inside a larger transaction."""
    return [Rollback(*row) for row in _ROLLBACKS.rows(connection, {"of_thread": thread.key})]


_NAMES: Final = ("number", "kept_seq", "last_seq", "edits", "steps", "created_ms")
_ROLLBACKS: Final = Prepared(
    select(*(ROLLBACK.c[name] for name in _NAMES))
    .where(ROLLBACK.c.thread == bindparam("of_thread"))
    .order_by(ROLLBACK.c.number)
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

        # Under the lock of `owning`: no message, edit or step can come between these reads and the commit.
        made = Rollback(
            last(ROLLBACK, "number") + 1,
            kept_seq,
            last(MESSAGE, "seq"),
            last(EDIT, "number"),
            last(STEP, "number"),
            log.now_ms(),
        )
        connection.execute(insert(ROLLBACK), {"thread": thread.key, **vars(made)})
        # Nothing runs while the session is claimed for this: a turn that was decided just now, or that a process left
        # when it died, would go on after the rollback.
        give_up_in(connection, log, thread, "running", message="The session went back to an earlier message.")
        log.touch_in(connection, thread)
        take_snapshot(connection, thread, "", "manual", made.created_ms)
        return made

    return await owning(log.database, thread, "a rollback", work)
