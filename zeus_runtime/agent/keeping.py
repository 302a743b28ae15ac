"""What happens to whole sessions: rolled back, archived, restored, deleted, pruned. Each is claimed first.

A session's checkpoints go before its rows are touched: whoever is killed in between leaves a session that is whole,
for what checkpoints say of it can be had from the log (``Session``).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime.agent.deleting import delete
from zeus_runtime.errors import UsageError, ZeusError

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

    from zeus_runtime.config.model import Retention
    from zeus_runtime.memory.service import MemoryService
    from zeus_runtime.store.thread_log import LogEntry, ThreadLog
    from zeus_runtime.store.threads import Thread
    from zeus_runtime.tools import WorkspaceFiles

_log = logging.getLogger(__name__)

DAY_MS: Final = 86_400_000
AT_ONCE: Final = 50
"""How many sessions the end of a run may archive or delete; the next run's end goes on."""


@dataclass(frozen=True)
class Pruned:
    """What a pruning did, or would do: session ids, the longest unused first.

    Args:
        archived, deleted: those that went.
        running: those that stayed because they run.
    """

    archived: Sequence[str] = ()
    deleted: Sequence[str] = ()
    running: Sequence[str] = ()


@dataclass(frozen=True)
class Keeper:
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
    saver: BaseCheckpointSaver[Any]
    running: Callable[[str], bool] = field(default=lambda _session: False)
    files: WorkspaceFiles | None = None
    forget: Sequence[Callable[[str], Awaitable[None]]] = ()
    memory: MemoryService | None = None

    async def archive(self, session: str) -> bool:
        """Pack a session away with its sub-agents' sessions; False if it was archived already.

        Raises:
            UsageError: there is no such session, it is running, or it works for another one.
        """
        async with self._claimed(session) as thread:
            await self._refuse_sub_agents(thread)
            return await self._archive(thread)

    async def restore(self, session: str) -> bool:
        """Bring an archived session back as it was, with its sub-agents' sessions; False if it was not archived.

        Raises:
            UsageError: there is no such session, it is running, or it works for another one.
            RunError: its archive is damaged.
        """
        from zeus_runtime.store.archived import restore

        async with self._claimed(session) as thread:
            await self._refuse_sub_agents(thread)
            return await restore(self.log, thread)

    async def delete(self, session: str) -> None:
        """Remove a session with its sub-agents' sessions: messages, checkpoints and originals, archived or not.

        Raises:
            UsageError: there is no such session, it is running, or it works for another one.
        """
        async with self._claimed(session) as thread:
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
        from zeus_runtime.store.line import line_of
        from zeus_runtime.store.rollbacks import roll_back, rollbacks

        async with self._claimed(session, archived=False) as thread:
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

    async def prune(
        self,
        retention: Retention,
        *,
        agent: str | None = None,
        at_most: int | None = None,
        spare: Collection[str] = (),
        dry_run: bool = False,
    ) -> Pruned:
        """Archive or delete what ``retention`` no longer keeps, the longest unused first.

        Args:
            agent: whose sessions; all of the database without one.
            at_most: how many go now.
            spare: sessions that stay.
            dry_run: only say what would go.
        """
        from zeus_runtime.store.listing import last_used

        database = self.log.database
        used = await database.run(lambda connection: last_used(connection, agent=agent))
        waiting = [each for each in due(used, retention, self.log.now_ms()) if each[0] not in spare]
        gone: list[str] = []
        running: list[str] = []
        for session, used_ms in waiting:
            if at_most is not None and len(gone) >= at_most:
                break
            if dry_run:
                gone.append(session)
                continue
            try:
                thread = await self.log.find(session)
            except UsageError:  # somebody else deleted or archived it meanwhile
                continue
            try:
                give_back = await self._claim(thread)
            except UsageError:
                running.append(session)
                continue
            try:
                if await self._put_away(thread, used_ms, retention):
                    gone.append(session)
            finally:
                give_back()
        room = None if at_most is None else max(0, at_most - len(gone))
        expired = await self._expired(retention, agent=agent, at_most=room, dry_run=dry_run)
        if (gone or expired) and not dry_run:
            await database.compact()
        return Pruned(
            archived=gone if retention.archive else (),
            deleted=expired if retention.archive else [*gone, *expired],
            running=running,
        )

    async def _expired(
        self, retention: Retention, *, agent: str | None, at_most: int | None, dry_run: bool
    ) -> list[str]:
        """Delete the sessions that were archived for longer than ``retention`` keeps them."""
        if retention.archived_max_age_days is None:
            return []
        before_ms = int(self.log.now_ms() - retention.archived_max_age_days * DAY_MS)
        found = (await self._archived_before(before_ms, agent=agent))[:at_most]
        if dry_run:
            return found
        gone: list[str] = []
        for session in found:
            try:
                async with self._claimed(session) as thread:
                    if await self._archived_before(before_ms, session=session):
                        await delete(self, thread)
                        gone.append(session)
            except UsageError:  # somebody else restored, runs or deleted it meanwhile
                continue
        return gone

    async def _archived_before(
        self, before_ms: int, *, agent: str | None = None, session: str | None = None
    ) -> list[str]:
        from zeus_runtime.store.listing import archived_before

        return await self.log.database.run(
            lambda connection: list(archived_before(connection, before_ms, agent=agent, session=session))
        )

    async def keep(self, retention: Retention, *, agent: str, spare: str) -> None:
        """Prune an agent's sessions if that is due: once a day for each agent of a database, so many at a time."""
        from zeus_runtime.store.upkeep import is_due, not_done

        if retention.keeps_all:
            return
        task = f"retention of {agent}"
        if not await is_due(self.log, task, every_ms=DAY_MS):
            return
        try:
            pruned = await self.prune(retention, agent=agent, at_most=AT_ONCE, spare=(spare,))
        except ZeusError:
            await not_done(self.log, task)
            raise
        went = len(pruned.archived) + len(pruned.deleted)
        if went >= AT_ONCE:
            await not_done(self.log, task)
        if went:
            _log.info("%d session(s) beyond the retention were put away", went)

    async def _put_away(self, thread: Thread, used_ms: int, retention: Retention) -> bool:
        """Archive or delete a claimed session, unless somebody used it since."""
        from zeus_runtime.store.claims import LogConflictError
        from zeus_runtime.store.epochs import reading
        from zeus_runtime.store.listing import last_used

        try:
            now = await reading(
                self.log.database,
                thread,
                lambda connection: last_used(connection, session=thread.session),
                archived=True,
            )
            if now != [(thread.session, used_ms)]:
                return False
            if retention.archive:
                await self._archive(thread)
            else:
                await delete(self, thread)
        except LogConflictError:  # it is gone, or taken by a process that does not see this one's lock
            return False
        return True

    async def _archive(self, thread: Thread) -> bool:
        """Pack a claimed session away; the checkpoints of all its family go first."""
        from zeus_runtime.store.archived import archive
        from zeus_runtime.store.family import own_family

        for each in await own_family(self.log, thread, "the archive"):
            await self.saver.adelete_thread(each.session)
        return await archive(self.log, thread)

    async def _refuse_sub_agents(self, thread: Thread) -> None:
        from zeus_runtime.store.family import parent_of

        parent = await parent_of(self.log, thread)
        if parent is not None:
            raise UsageError(
                f"the session {thread.session} works for {parent}",
                remedy=f"Name {parent}: its sub-agents' sessions go along.",
            )

    @asynccontextmanager
    async def _claimed(self, session: str, *, archived: bool = True) -> AsyncIterator[Thread]:
        thread = await self.log.find(session, archived=archived)
        give_back = await self._claim(thread)
        try:
            yield thread
        finally:
            give_back()

    async def _claim(self, thread: Thread) -> Callable[[], None]:
        if self.running(thread.session):
            raise UsageError(
                f"the session {thread.session} is running",
                remedy="Wait for it, cancel it, or use another session.",
            )
        return await self.log.database.claim(thread.session)


def due(used: Sequence[tuple[str, int]], retention: Retention, now_ms: int) -> list[tuple[str, int]]:
    """Which sessions ``retention`` no longer keeps, the longest unused first. Pure.

    Args:
        used: sessions and when each was last used (UTC milliseconds), the last used first.
        now_ms: the time.
    """
    oldest = None if retention.max_age_days is None else now_ms - retention.max_age_days * DAY_MS
    most = len(used) if retention.max_sessions is None else retention.max_sessions
    gone = [
        each for place, each in enumerate(used) if place >= most or (oldest is not None and each[1] < oldest)
    ]
    return gone[::-1]


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
