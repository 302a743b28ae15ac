"""The threads' log for a verb: opened, used, closed; to look, a database that is not there is not made."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from zeus_runtime.cli.database_file import is_missing

if TYPE_CHECKING:
    from zeus_runtime.agent.checked import Checked
    from zeus_runtime.cli.process import Process
    from zeus_runtime.store.thread_log import ThreadLog

T = TypeVar("T")


def with_log(
    process: Process,
    checked: Checked,
    work: Callable[[ThreadLog], Awaitable[T]],
    *,
    makes: bool = False,
) -> T | None:
    """What ``work`` gives; None where the database is a file that is not there, unless it ``makes`` one."""
    import asyncio

    from zeus_runtime.cli.start import prepared
    from zeus_runtime.store.database import Database
    from zeus_runtime.store.thread_log import ThreadLog

    if not makes and is_missing(checked):
        return None

    async def run() -> T:
        database = Database(checked.config.storage.url, directory=checked.directory)
        try:
            log = ThreadLog(database)
            await log.create_tables()
            return await work(log)
        finally:
            await database.close()

    with prepared(process):
        return asyncio.run(run())
