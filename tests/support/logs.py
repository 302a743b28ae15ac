"""A thread log of one's own, as a process has it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from zeus_runtime.store.database import Database
from zeus_runtime.store.thread_log import ThreadLog


@asynccontextmanager
async def log_of(url: str, folder: Path) -> AsyncIterator[tuple[Database, ThreadLog]]:
    """An open database and its log; closed at the end."""
    database = Database(url, directory=folder)
    try:
        log = ThreadLog(database)
        await log.create_tables()
        yield database, log
    finally:
        await database.close()
