"""A claimed session removed with its sub-agents' sessions, and all that is kept for them alone."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from zeus_runtime.sessions.lifecycle import SessionLifecycle
    from zeus_runtime.store.threads import Thread


async def delete(lifecycle: SessionLifecycle, thread: Thread) -> None:
    """Remove a claimed session, its sub-agents' sessions, their memories, checkpoints and originals.

    Memories and rows go in one transaction, in the claim's epoch or not at all: a process that lost the claim without
    knowing takes nothing from the one that has it. Rows go before files: who is killed in between leaves files that
    name no session any more.

    Raises:
        LogConflictError: another process has taken the session.
    """
    from zeus_runtime.run.kept_files import files_of, remove_files
    from zeus_runtime.store.session_tree import own_family, removal

    log, files = lifecycle.log, lifecycle.files
    family = await own_family(log, thread, "the end")
    for each in family:
        await lifecycle.saver.adelete_thread(each.session)
    paths: dict[str, list[str]] = {}

    def leave(connection: Connection, each: Thread) -> None:
        if files is not None:
            paths[each.session] = files_of(connection, each, files)

    remove = await removal(log, thread, leave)
    sessions = [each.session for each in family]
    if lifecycle.memory is not None and not log.database.is_own:
        await lifecycle.memory.forget_sessions(sessions, along=remove)
    else:
        await log.database.run(remove)
        if lifecycle.memory is not None:
            await lifecycle.memory.forget_sessions(sessions)
    if files is not None:
        await asyncio.to_thread(remove_files, files, [path for each in paths.values() for path in each])
    # The rows are gone, so nobody comes here again for this session: one that fails must not stop the others.
    ends = await asyncio.gather(
        *(forget(session) for session in sessions for forget in lifecycle.forget), return_exceptions=True
    )
    for end in ends:
        if isinstance(end, BaseException):
            raise end
