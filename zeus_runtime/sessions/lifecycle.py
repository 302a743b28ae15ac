"""Operations on whole sessions: roll back, fork, archive, restore, delete. A session that changes is claimed first.

A session's checkpoints are deleted before its rows change. A process that is killed in between leaves a complete
session, because the log holds everything that the checkpoints say (``Session``).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zeus_runtime.command_lines import zeus_command
from zeus_runtime.errors import ChangedError, NotFoundError, UsageError
from zeus_runtime.models.content import is_users_payload
from zeus_runtime.sessions.deletion import delete

if TYPE_CHECKING:
    from zeus_runtime.memory.service import MemoryService
    from zeus_runtime.run.graph import Saver
    from zeus_runtime.store.listing import SessionInfo
    from zeus_runtime.store.thread_log import LogEntry, ThreadLog
    from zeus_runtime.store.threads import Thread
    from zeus_runtime.tools import WorkspaceFiles

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SessionLifecycle:
    """The sessions of one database.

    Args:
        log: holds their messages.
        saver: holds their checkpoints.
        running: whether this process runs a session.
        files: holds the originals that context policies archived, which are deleted with their session; None keeps
            them.
        forget: further steps for a deleted session.
        memory: deletes the memories of a deleted session; None without long-term memory.
        own_files: counts the files in the folders that a session has alone.
    """

    log: ThreadLog
    saver: Saver
    running: Callable[[str], bool] = field(default=lambda _session: False)
    files: WorkspaceFiles | None = None
    forget: Sequence[Callable[[str], Awaitable[None]]] = ()
    memory: MemoryService | None = None
    own_files: Callable[[str], int] = lambda _session: 0

    async def archive(self, session: str) -> bool:
        """Archive a session with its sub-agents' sessions; False if it was already archived.

        Raises:
            UsageError: the session does not exist, is running, or is a sub-agent's.
        """
        async with self.claimed(session) as thread:
            await self._refuse_sub_agents(thread)
            return await self.archive_claimed(thread)

    async def restore(self, session: str) -> bool:
        """Restore an archived session and its sub-agents' sessions completely; False if it was not archived.

        Raises:
            UsageError: the session does not exist, is running, or is a sub-agent's.
            RunError: its archive is damaged.
        """
        from zeus_runtime.store.archived import restore

        async with self.claimed(session) as thread:
            await self._refuse_sub_agents(thread)
            return await restore(self.log, thread)

    async def delete(
        self,
        session: str,
        *,
        shown: Sequence[SessionInfo] | None = None,
        messages: int | None = None,
        updated_ms: int | None = None,
    ) -> None:
        """Delete a session, archived or not, with its sub-agents' sessions: messages, checkpoints and originals.

        Args:
            shown: the sessions that a person was shown before they agreed, these among them.
            messages, updated_ms: of the session, as somebody read it.

        Raises:
            UsageError: the session does not exist, is running, or is a sub-agent's.
            ChangedError: a message or a sub-agent's session came since it was shown.
        """
        from zeus_runtime.sessions.stored import family

        async with self.claimed(session) as thread:
            await self._refuse_sub_agents(thread)
            # Not `info`, which refuses an archived session that is claimed.
            now = await self.log.seek(session)
            assert now is not None, "it is claimed"
            changed = messages not in (None, now.messages) or updated_ms not in (None, now.updated_ms)
            if shown is not None:
                seen = {(each.session, each.messages, each.updated_ms) for each in shown}
                found = await family(self.log, now)
                changed |= any((each.session, each.messages, each.updated_ms) not in seen for each in found)
            if changed:
                raise ChangedError(
                    f"{session} was not deleted: it changed after it was shown",
                    remedy="Look at it again, then delete it.",
                )
            await delete(self, thread)

    async def goes_along(self, sessions: Sequence[str]) -> tuple[int, int | None]:
        """What goes with deleted sessions besides their messages: files of their own folders, and memories.

        Returns:
            both numbers; None for memories that are kept elsewhere, of which it is unknown.
        """
        import asyncio

        files = await asyncio.to_thread(lambda: sum(map(self.own_files, sessions)))
        return files, 0 if self.memory is None else await self.memory.kept_of_sessions(sessions)

    async def roll_back(self, session: str, to: int, *, before: bool = False) -> int:
        """Go back to the user's message ``to``: later messages are set aside, and stay readable.

        Args:
            to: its number in the log.
            before: whether to set the message itself aside too.

        Returns:
            the number of messages of the conversation that were set aside.

        Raises:
            UsageError: the session or message does not exist, nothing comes after it, or the session is running or a
                sub-agent's.
        """
        from zeus_runtime.store.branch import line_of
        from zeus_runtime.store.rollbacks import roll_back, rollbacks

        async with self.claimed(session, archived=False) as thread:
            await self._refuse_sub_agents(thread)
            # In the claim: no other process can add a message after it.
            entries = await self.log.read(thread)
            line = line_of(await rollbacks(self.log, thread))
            on_line = [entry for entry in entries if line.place(entry.seq) is not None]
            place = _user_message(session, to, on_line)
            kept = on_line[: place if before else place + 1]
            if len(kept) == len(on_line):
                raise UsageError(
                    f"nothing comes after message {to} of {session}",
                    remedy="Resume with --continue, or use --before to change the prompt.",
                )
            # Before the rollback, or a killed process would leave checkpoints of messages that are set aside.
            await self.saver.adelete_thread(session)
            await roll_back(self.log, thread, kept[-1].seq if kept else 0)
            return len(on_line) - len(kept)

    async def fork(
        self, session: str, step: int, *, name: str | None = None, policies: str | None = None
    ) -> str:
        """Begin a new session as this one was when a step of it was asked; a resume asks that step again.

        The step may be one that a rollback set aside, and the session may be running: it does not change.

        Args:
            step: its number in the ledger.
            name: the new session's; if there is one of that name, it was forked before, and nothing is done.
            policies: the new session's own middlewares, as valid YAML; None for those of this session.

        Returns:
            the new session.

        Raises:
            UsageError: the session or step does not exist, or it is a sub-agent's or archived.
        """
        from zeus_runtime.run.stored_thread import step_of
        from zeus_runtime.run.turn import new_session_id
        from zeus_runtime.store.branch import line_of
        from zeus_runtime.store.forks import Moment, copy
        from zeus_runtime.store.rollbacks import rollbacks

        thread = await self.log.find(session)
        await self._refuse_sub_agents(thread)
        # A repeated request after a lost answer: the fork is there.
        if name is not None and await self.log.has(name):
            return name
        steps = [step_of(each) for each in await self.log.steps(thread)]
        asked = next((each for each in steps if each.number == step), None)
        if asked is None:
            raise NotFoundError(
                f"the session {session} has no step {step}",
                remedy=f"Its last ones are {', '.join(str(each.number) for each in steps[-10:]) or 'none'}.",
            )
        # The highest and not the last: an entry that cannot be read names none.
        edits = max((each.edits for each in steps if each.number < step), default=0)
        # The rollbacks that came before the step was asked; the fork gets these only.
        past = [each for each in await rollbacks(self.log, thread) if each.steps < step]
        moment = Moment(line_of(past).seq(asked.cursor), edits, step - 1, len(past))
        made = await copy(
            self.log,
            thread,
            name or new_session_id(),
            moment,
            title_end=f"(from step {step})",
            policies=policies,
        )
        return made.session

    async def archive_claimed(self, thread: Thread) -> bool:
        """Archive a claimed session; the checkpoints of its whole family are deleted first."""
        from zeus_runtime.store.archived import archive
        from zeus_runtime.store.session_tree import own_family

        for each in await own_family(self.log, thread, "the archive"):
            await self.saver.adelete_thread(each.session)
        return await archive(self.log, thread)

    async def _refuse_sub_agents(self, thread: Thread) -> None:
        from zeus_runtime.store.session_tree import refuse_inner

        await self.log.database.run(lambda connection: refuse_inner(connection, thread))

    @asynccontextmanager
    async def claimed(self, session: str, *, archived: bool = True) -> AsyncIterator[Thread]:
        """Claim a session: inside the block no other run can use it.

        Args:
            archived: whether the session may be archived.

        Raises:
            UsageError: the session does not exist, or it is running.
        """
        thread = await self.log.find(session, archived=archived)
        give_back = await self.claim(thread)
        try:
            yield thread
        finally:
            give_back()

    async def claim(self, thread: Thread) -> Callable[[], None]:
        """Claim a session until the returned function is called; meanwhile no run can use it.

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
        UsageError: ``seq`` is not a message of the user in the conversation.
    """
    import json

    turns = [
        (index, entry.seq)
        for index, entry in enumerate(on_line)
        if is_users_payload(json.loads(entry.payload))
    ]
    for index, each in turns:
        if each == seq:
            return index
    numbers = ", ".join(str(each) for _, each in turns[-10:])
    raise UsageError(
        f"message {seq} of {session} is not a message of the user in the conversation",
        remedy=f"`{zeus_command('sessions', 'show', session)}` numbers them; the last ones are {numbers or 'none'}.",
    )
