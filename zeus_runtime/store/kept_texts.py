"""Texts that a session keeps under a name in place of a digest, beside those of its ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Connection, delete, insert

from zeus_runtime.store.fencing import owning
from zeus_runtime.store.tables import TEXT

if TYPE_CHECKING:
    from zeus_runtime.store.thread_log import ThreadLog
    from zeus_runtime.store.threads import Thread


async def keep_text(log: ThreadLog, thread: Thread, name: str, text: str) -> None:
    """Keep a text in place of the former one of this name; a fork of the session has it too.

    Args:
        name: no digest, such as ``placeholders``.

    Raises:
        LogConflictError: another process has claimed the session.
    """

    def work(connection: Connection) -> None:
        connection.execute(delete(TEXT).where(TEXT.c.thread == thread.key, TEXT.c.digest == name))
        connection.execute(insert(TEXT), {"thread": thread.key, "digest": name, "text": text})

    await owning(log.database, thread, f"the text {name}", work)
