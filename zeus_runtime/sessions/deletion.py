"""Delete a claimed session with its sub-agents' sessions, and everything that is stored for them alone."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from zeus_runtime.plan.workspace import session_folder
from zeus_runtime.run.connections import plans, sandboxes_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sqlalchemy import Connection

    from zeus_runtime.plan.plan import Plan
    from zeus_runtime.sessions.lifecycle import SessionLifecycle
    from zeus_runtime.store.threads import Thread


def forgetting(plan: Plan) -> list[Callable[[str], Awaitable[None]]]:
    """The further steps for a deleted session: its sandboxes, and the folders that it and its sub-agents had alone."""

    def removing(each: Plan) -> Callable[[str], Awaitable[None]]:
        async def remove_folder(session: str) -> None:
            folder = session_folder(each, session)
            if folder is not None:
                await asyncio.to_thread(folder.remove_root)

        return remove_folder

    return [*(each.remove for each in sandboxes_of(plan)), *map(removing, plans(plan))]


def own_files(plan: Plan, session: str) -> int:
    """How many files are in the folders that a session has alone."""
    roots = {folder.root for each in plans(plan) if (folder := session_folder(each, session)) is not None}
    return sum(len(files) for root in roots for _, _, files in os.walk(root))


async def delete(lifecycle: SessionLifecycle, thread: Thread) -> None:
    """Delete a claimed session, its sub-agents' sessions, and their memories, checkpoints and originals.

    Memories and rows are deleted in one transaction in the claim's epoch, or not at all: a process that unknowingly
    lost the claim deletes nothing of its new holder. Rows go before files, so that a process that is killed in between
    leaves only files that no session names.

    Raises:
        LogConflictError: another process has claimed the session.
    """
    from zeus_runtime.run.session_files import files_of, remove_files
    from zeus_runtime.store.session_tree import own_family, removal

    log, files = lifecycle.log, lifecycle.files
    family = await own_family(log, thread, "the end")
    for each in family:
        await lifecycle.saver.adelete_thread(each.session)
    paths: dict[str, list[str]] = {}

    def leave(connection: Connection, each: Thread) -> None:
        if files is not None:
            paths[each.session] = files_of(connection, each, files)

    # In the transaction that deletes: a file that another session names by then stays.
    remove = await removal(log, thread, leave)
    sessions = [each.session for each in family]
    # A database in memory has only one connection, so memory cannot join its transaction.
    if lifecycle.memory is not None and not log.database.is_own:
        # `along`: memory runs the deletion of the rows in its own transaction on the same database.
        await lifecycle.memory.forget_sessions(sessions, along=remove)
    else:
        await log.database.run(remove)
        if lifecycle.memory is not None:
            await lifecycle.memory.forget_sessions(sessions)
    if files is not None:
        # After the commit: if the transaction fails, the session still has its originals.
        await asyncio.to_thread(remove_files, files, [path for each in paths.values() for path in each])
    # The rows are gone, so no later attempt will find this session: one failure must not stop the other steps.
    ends = await asyncio.gather(
        *(forget(session) for session in sessions for forget in lifecycle.forget), return_exceptions=True
    )
    for end in ends:
        if isinstance(end, BaseException):
            raise end
