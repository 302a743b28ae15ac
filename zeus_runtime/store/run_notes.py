"""The notes of a session's runs: small values that a run stores so that it finds them again when it is resumed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sqlalchemy import select

from zeus_runtime.store.fencing import appending, put, reading
from zeus_runtime.store.tables import NOTE

if TYPE_CHECKING:
    from zeus_runtime.store.thread_log import ThreadLog
    from zeus_runtime.store.threads import Thread


async def put_note(log: ThreadLog, thread: Thread, run_id: str, name: str, value: str) -> None:
    """Store one note of a run.

    Args:
        name: unique within the run.
        value: JSON text.

    Raises:
        LogConflictError: the run has a note of that name, or another process has claimed the session.
    """
    row = {
        "thread": thread.key,
        "run_id": run_id,
        "name": name,
        "created_ms": log.now_ms(),
        "value": value,
    }
    await appending(
        log.database, thread, f"note {name}", lambda connection, fence: put(connection, NOTE, row, fence)
    )


async def notes_of(log: ThreadLog, thread: Thread, run_id: str) -> Mapping[str, str]:
    """The notes of a run by their names, each JSON text."""
    query = select(NOTE.c.name, NOTE.c.value).where(NOTE.c.thread == thread.key, NOTE.c.run_id == run_id)
    return await reading(
        log.database, thread, lambda connection: {row[0]: row[1] for row in connection.execute(query)}
    )
