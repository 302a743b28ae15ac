"""What a stored session says of itself, for ``drift``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zeus_runtime.agent.agent import Agent


async def compactions_of(agent: Agent, session: str) -> list[int]:
    """How many messages a session had at each of its compactions: ``drift(…, compacted_at=…)``.

    Args:
        agent: the agent that the session belongs to.
        session: its id.

    Raises:
        UsageError: there is no such session.
    """
    from zeus_runtime.run.stored_thread import step_of
    from zeus_runtime.store.database import Database
    from zeus_runtime.store.row_security import EVERYONE
    from zeus_runtime.store.thread_log import ThreadLog

    plan = agent.plan
    database = Database(plan.config.storage.url, directory=plan.context.directory, acting=EVERYONE)
    try:
        log = ThreadLog(database)
        steps = [step_of(entry) for entry in await log.steps(await log.find(session))]
    finally:
        await database.close()
    return [
        step.cursor for step in steps if any(each.admitted and each.kind != "pin" for each in step.decisions)
    ]
