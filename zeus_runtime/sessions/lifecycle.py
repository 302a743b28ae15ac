"""What happens to whole sessions: rolled back, archived, restored, deleted. Each is claimed first.

A session's checkpoints go before its rows are touched: whoever is killed in between leaves a session that is whole,
for what checkpoints say of it can be had from the log (``Session``).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zeus_runtime.errors import UsageError
from zeus_runtime.sessions.deletion import delete

if TYPE_CHECKING:
    from zeus_runtime.memory.service import MemoryService
    from zeus_runtime.run.graph import Saver
    from zeus_runtime.store.thread_log import LogEntry, ThreadLog
    from zeus_runtime.store.threads import Thread
    from zeus_runtime.tools import WorkspaceFiles

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SessionLifecycle:
    """The sessions of one database.

    Args:
        log: their messages.
        saver: their checkpoints.
        running: whether this process runs a session.
        files: where context policies archived originals, which go with their session; None leaves them.
        forget: what else is to be done for a session that was deleted.
        memory: where what belongs to one session alone goes with it; None without long-term memory.
    """

    log: ThreadLog
    saver: Saver
    running: Callable[[str], bool] = field(default=lambda _session: False)
    files: WorkspaceFiles | None = None
    forget: Sequence[Callable[[str], Awaitable[None]]] = ()
    memory: MemoryService | None = None

    async def archive(self, session: str) -> bool:
        """Pack a session away with its sub-agents' sessions; False if it was archived already.

        Raises:
            UsageError: there is no such session, it is running, or it works for another one.
        """
        async with self.claimed(session) as thread:
            await self._refuse_sub_agents(thread)
            return await self.archive_claimed(thread)

    async def restore(self, session: str) -> bool:
        """Bring an archived session back as it was, with its sub-agents' sessions; False if it was not archived.

        Raises:
            UsageError: there is no such session, it is running, or it works for another one.
            RunError: its archive is damaged.
        """
        from zeus_runtime.store.archived import restore

        async with self.claimed(session) as thread:
            await self._refuse_sub_agents(thread)
            return await restore(self.log, thread)

    async def delete(self, session: str) -> None:
        """Remove a session with its sub-agents' sessions: messages, checkpoints and originals, archived or not.

        Raises:
            UsageError: there is no such session, it is running, or it works for another one.
        """
        async with self.claimed(session) as thread:
            await self._refuse_sub_agents(thread)
            await delete(self, thread)

    async def roll_back(self, session: str, to: int, *, before: bool = False) -> int:
        """Go back to the user's message ``to``: what came after it is set aside, and stays readable.

        Args:
            to: its number in the log.
            before: set the message itself aside too.

        Returns:
            how many messages of the conversation were set aside.

        Raises:
            UsageError: there is no such session or message, or nothing after it, or the session is running.
        """
        from zeus_runtime.store.branch import line_of
        from zeus_runtime.store.rollbacks import roll_back, rollbacks

        async with self.claimed(session, archived=False) as thread:
            entries = await self.log.read(thread)
            line = line_of(await rollbacks(self.log, thread))
            on_line = [entry for entry in entries if line.place(entry.seq) is not None]
            place = _user_message(session, to, on_line)
            kept = on_line[: place if before else place + 1]
            if len(kept) == len(on_line):
                raise UsageError(
                    f"nothing comes after message {to} of {session}",
                    remedy="Go on with --continue, or say --before to word it anew.",
                )
            await self.saver.adelete_thread(session)
            await roll_back(self.log, thread, kept[-1].seq if kept else 0)
            return len(on_line) - len(kept)

    async def archive_claimed(self, thread: Thread) -> bool:
        """Pack a claimed session away; the checkpoints of all its family go first."""
        from zeus_runtime.store.archived import archive
        from zeus_runtime.store.session_tree import own_family

        for each in await own_family(self.log, thread, "the archive"):
            await self.saver.adelete_thread(each.session)
        return await archive(self.log, thread)

    async def _refuse_sub_agents(self, thread: Thread) -> None:
        from zeus_runtime.store.session_tree import parent_of

        parent = await parent_of(self.log, thread)
        if parent is not None:
            raise UsageError(
                f"the session {thread.session} works for {parent}",
                remedy=f"Name {parent}: its sub-agents' sessions go along.",
            )

    @asynccontextmanager
    async def claimed(self, session: str, *, archived: bool = True) -> AsyncIterator[Thread]:
        """A session of which this process is sure that nobody runs it meanwhile.

        Args:
            archived: it may be archived.

        Raises:
            UsageError: there is no such session, or it is running.
        """
        thread = await self.log.find(session, archived=archived)
        give_back = await self.claim(thread)
        try:
            yield thread
        finally:
            give_back()

    async def claim(self, thread: Thread) -> Callable[[], None]:
        """See that nobody runs a session until what this gives is called.

        Raises:
            UsageError: it is running.
        """
        if self.running(thread.session):
            raise UsageError(
                f"the session {thread.session} is running",
                remedy="Wait for it, cancel it, or use another session.",
            )
        return await self.log.database.claim(thread.session)


def _user_message(session: str, seq: int, on_line: Sequence[LogEntry]) -> int:
    """The index of the user's message ``seq``.

    Raises:
        UsageError: it is none.
    """
    import json

    turns = [
        (index, entry.seq)
        for index, entry in enumerate(on_line)
        if json.loads(entry.payload).get("role") == "user"
    ]
    for index, each in turns:
        if each == seq:
            return index
    numbers = ", ".join(str(each) for _, each in turns[-10:])
    raise UsageError(
        f"message {seq} of {session} is no message of the user's in the conversation",
        remedy=f"`zeus sessions show {session}` numbers them; the last ones are {numbers or 'none'}.",
    )
