"""A claimed session removed with its sub-agents' sessions, and all that is kept for them alone."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from zeus_runtime.agent.keeping import Keeper
    from zeus_runtime.store.threads import Thread


async def delete(keeper: Keeper, thread: Thread) -> None:
    """Remove a claimed session, its sub-agents' sessions, their memories, checkpoints and originals.

    Memories go before the rows: nobody would find them then. Rows go before files: who is killed in between leaves
    files that name no session any more. Both go in the claim's epoch or not at all, so that a process which lost the
    claim without knowing takes nothing from the one that has it.

    Raises:
        LogConflictError: another process has taken the session.
    """
    from zeus_runtime.agent.originals import files_of, remove_files
    from zeus_runtime.store.epochs import holding
    from zeus_runtime.store.family import delete_family, own_family

    log, files = keeper.log, keeper.files
    family = await own_family(log, thread, "the end")
    if keeper.memory is not None:
        held = await holding(log.database, thread, "the end")
        for each in family:
            await keeper.memory.forget_session(each.session, held=held)
    for each in family:
        await keeper.saver.adelete_thread(each.session)
    paths: dict[str, list[str]] = {}

    def leave(connection: Connection, each: Thread) -> None:
        if files is not None:
            paths[each.session] = files_of(connection, each, files)

    await delete_family(log, thread, leave)
    if files is not None:
        await asyncio.to_thread(remove_files, files, [path for each in paths.values() for path in each])
    for each in family:
        for forget in keeper.forget:
            await forget(each.session)
