"""Regular tasks of a database that many processes share: who does a task, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Connection, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from zeus_runtime.store.tables import UPKEEP

if TYPE_CHECKING:
    from zeus_runtime.store.thread_log import ThreadLog


async def is_due(log: ThreadLog, task: str, *, every_ms: int) -> bool:
    """Take on a regular task; False if another process did within the last ``every_ms``."""
    now = log.now_ms()

    def work(connection: Connection) -> bool:
        # The UPDATE decides: of several processes only one changes the row.
        taken = update(UPKEEP).where(UPKEEP.c.name == task, UPKEEP.c.taken_ms <= now - every_ms)
        if connection.execute(taken.values(taken_ms=now)).rowcount == 1:
            return True
        if connection.execute(select(UPKEEP.c.name).where(UPKEEP.c.name == task)).first() is not None:
            return False
        connection.execute(insert(UPKEEP), {"name": task, "taken_ms": now})
        return True

    try:
        return await log.database.run(work)
    except IntegrityError:  # another process inserted the row meanwhile, and does the task
        return False


async def not_done(log: ThreadLog, task: str) -> None:
    """Return a regular task: there is more to do, or it failed."""
    await log.database.run(lambda connection: connection.execute(delete(UPKEEP).where(UPKEEP.c.name == task)))
