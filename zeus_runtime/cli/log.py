"""The threads' log for a verb: opened, used, closed; to look, a database that is not there is not made."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from zeus_runtime.cli.database_file import is_missing
from zeus_runtime.cli.streams import complain
from zeus_runtime.errors import UsageError, ZeusError

if TYPE_CHECKING:
    from zeus_runtime.cli.process import Process
    from zeus_runtime.plan.validated import Checked
    from zeus_runtime.store.thread_log import ThreadLog
    from zeus_runtime.store.threads import Thread

T = TypeVar("T")


def with_log(
    process: Process,
    checked: Checked,
    work: Callable[[ThreadLog], Awaitable[T]],
    *,
    makes: bool = False,
    shows: bool = False,
) -> T | None:
    """The result of ``work``; None if the database is a missing file, unless it ``makes`` one.

    The secrets of the agent and its sub-agents are masked in all that it reads and the command prints afterwards; also
    those in the folders of the sessions that it reads, if sessions or users have their own.

    Args:
        shows: it reads sessions to show them, also of other agents: the secrets that are written out in the configs of
            the working directory are masked too.
    """
    import asyncio

    from zeus_runtime.cli.start import prepared
    from zeus_runtime.store.database import Database
    from zeus_runtime.store.masked_log import MaskedLog
    from zeus_runtime.store.row_security import EVERYONE

    if not makes and is_missing(checked):
        return None
    look_at = _look_at_folders(_family_learned(process, checked))
    if shows:
        process.learn_folder()

    async def run() -> T:
        database = Database(checked.config.storage.url, directory=checked.directory, acting=EVERYONE)
        try:
            log = MaskedLog(database, process.secrets, look_at=look_at)
            # Also to look: the tables of an older version are upgraded first, or the command says that they are newer.
            await log.create_tables()
            return await work(log)
        finally:
            await database.close()

    with prepared(process):
        return asyncio.run(run())


async def thread_of(log: ThreadLog, session: str, checked: Checked) -> Thread:
    """A session of the config's agent: another one has another config.

    Raises:
        UsageError: the session does not exist, is archived, or is another agent's.
    """
    thread = await log.find(session)
    info = await log.info(thread)
    if info.parent:
        raise UsageError(
            f"{session} is a session of the sub-agent {info.agent}", remedy=f"Name its parent, {info.parent}."
        )
    if info.agent != checked.config.name:
        raise UsageError(
            f"{session} is a session of the agent {info.agent!r}, not of {checked.config.name!r}",
            remedy="Name its config.",
        )
    return thread


def _family_learned(process: Process, checked: Checked) -> Sequence[Checked]:
    """The config and those of its sub-agents, whose secrets are known then: their sessions are in its database."""
    from zeus_runtime.plan.plan import make_plan
    from zeus_runtime.plan.workspace_secrets import family_of

    if not checked.config.agents:
        return [checked]
    try:
        return family_of(checked, make_plan(checked))  # from now on, the config's redactor knows them
    except ZeusError as error:
        why = process.redact(error.message).partition("\n")[0]
        complain(f"note: secrets that only the sub-agents' configs have are not masked: {why}", "yellow")
        return [checked]


def _look_at_folders(family: Sequence[Checked]) -> Callable[[ThreadLog, str], Awaitable[None]] | None:
    """Learns what the folders of a session hold now; None if no session and no user has folders of its own."""
    if all(each.config.workspace.per is None for each in family):
        return None
    from zeus_runtime.plan.workspace_secrets import WorkspaceSecrets, at_session
    from zeus_runtime.store.session_tree import outermost_of

    seen: set[str] = set()

    async def look(log: ThreadLog, name: str) -> None:
        session = await outermost_of(log, name)
        if session is None or session in seen:
            return
        seen.add(session)
        WorkspaceSecrets(at_session(family, session, await log.owner_of(session))).look()

    return look
