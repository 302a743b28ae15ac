"""Archived sessions: their rows packed into one row until they are restored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Connection, delete, insert, select

from zeus_runtime.store.compression import drop_rows, pack_rows, unpack_rows
from zeus_runtime.store.fencing import owning, take
from zeus_runtime.store.session_tree import descendants_in
from zeus_runtime.store.tables import ARCHIVE

if TYPE_CHECKING:
    from zeus_runtime.store.thread_log import ThreadLog
    from zeus_runtime.store.threads import Thread


async def archive(log: ThreadLog, thread: Thread) -> bool:
    """Pack the rows of the session and its sub-agents' sessions into the archive, in one transaction.

    Returns:
        False if the session is already archived.

    Raises:
        LogConflictError: another process has claimed the session.
    """

    def work(connection: Connection) -> bool:
        query = select(ARCHIVE.c.thread).where(ARCHIVE.c.thread == thread.key)
        if connection.execute(query).first() is not None:
            return False
        for each in [thread, *descendants_in(connection, thread)]:
            pack(connection, each)
        return True

    def pack(connection: Connection, each: Thread) -> None:
        # Raises the epoch: a process that still runs a sub-agent's session can no longer write to it.
        if each != thread:
            take(connection, each)
        # Under the lock of the session's row, which waits for writes that are under way: so the rows are complete.
        packed = pack_rows(connection, each.key)
        row = {
            "thread": each.key,
            "archived_ms": now,
            "messages": packed.counts.get("message", 0),
            "edits": packed.counts.get("context_edit", 0),
            "steps": packed.counts.get("context_step", 0),
            "texts": packed.counts.get("context_text", 0),
            "digest": packed.digest,
            "rows": packed.data,
        }
        connection.execute(insert(ARCHIVE), row)
        drop_rows(connection, each.key)

    now = log.now_ms()
    return await owning(log.database, thread, "the archive", work, archived=True)


async def restore(log: ThreadLog, thread: Thread) -> bool:
    """Restore the rows of an archived session and its sub-agents' sessions, in one transaction; this counts as use.

    Returns:
        False if the session is not archived.

    Raises:
        RunError: the archive is damaged; nothing is changed.
        LogConflictError: another process has claimed the session.
    """

    def work(connection: Connection) -> bool:
        if not unpack(connection, thread):
            return False
        for each in descendants_in(connection, thread):
            unpack(connection, each)
        log.touch_in(connection, thread)
        return True

    def unpack(connection: Connection, each: Thread) -> bool:
        here = ARCHIVE.c.thread == each.key
        found = connection.execute(select(ARCHIVE.c.rows, ARCHIVE.c.digest).where(here)).first()
        if found is None:
            return False
        unpack_rows(connection, each.key, bytes(found[0]), found[1])
        connection.execute(delete(ARCHIVE).where(here))
        return True

    return await owning(log.database, thread, "an archived session", work, archived=True)
