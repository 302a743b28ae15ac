"""Archive or delete the sessions that exceed a retention, the longest unused first."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from zeus_runtime.errors import RunError, UsageError
from zeus_runtime.run.cleanup import cause_of
from zeus_runtime.sessions.deletion import delete

if TYPE_CHECKING:
    from zeus_runtime.config.model import Retention
    from zeus_runtime.sessions.lifecycle import SessionLifecycle
    from zeus_runtime.store.threads import Thread

_log = logging.getLogger(__name__)

DAY_MS: Final = 86_400_000
AT_ONCE: Final = 50
"""The most sessions that the end of one run archives or deletes; the end of the next run continues."""
_ALIKE: Final = 3
"""After this many failures for the same reason the database or the disk is at fault, and the rest is not tried."""


@dataclass(frozen=True)
class Pruned:
    """The result of a pruning, or of a dry run: session ids, the longest unused first.

    Args:
        archived, deleted: the sessions that were archived or deleted.
        running: sessions that stayed because they are running.
        failed: sessions that could not be archived or deleted, each with the reason.
    """

    archived: Sequence[str] = ()
    deleted: Sequence[str] = ()
    running: Sequence[str] = ()
    failed: Sequence[tuple[str, str]] = ()


@dataclass
class _Done:
    """The progress of one pruning; the fields are those of ``Pruned``.

    Args:
        at_most: the most sessions to archive or delete; None for no limit.
    """

    at_most: int | None
    gone: list[str] = field(default_factory=list)
    running: list[str] = field(default_factory=list)
    failed: list[tuple[str, str]] = field(default_factory=list)

    @property
    def is_enough(self) -> bool:
        reasons = [reason for _, reason in self.failed]
        return len(self.gone) == self.at_most or any(reasons.count(each) >= _ALIKE for each in reasons)

    @contextmanager
    def trying(self, session: str) -> Iterator[None]:
        """Inside the block, an error counts as this session's failure, and the pruning continues."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - a damaged session must not stop the pruning of the others
            _log.debug("%s could not be put away", session, exc_info=True)
            self.failed.append((session, cause_of(error)))


@dataclass(frozen=True)
class Pruner:
    """Applies a retention.

    Args:
        lifecycle: archives and deletes sessions.
        retention: decides which sessions stay.
        agent: prunes this agent's sessions only; None for all of the database.
        dry_run: only find the sessions, and change nothing.
        among: prunes no others than these, such as those that a person was shown; None for no limit.
    """

    lifecycle: SessionLifecycle
    retention: Retention
    agent: str | None = None
    dry_run: bool = False
    among: Collection[str] | None = None

    async def run(self, *, at_most: int | None = None, spare: Collection[str] = ()) -> Pruned:
        """Archive or delete the sessions that are due.

        Args:
            at_most: the most sessions for this call.
            spare: sessions that stay.
        """
        done = _Done(at_most)
        await self._put_unused_away(done, spare)
        unused = len(done.gone)
        await self._delete_expired(done)
        if done.gone and not self.dry_run:
            await self.lifecycle.log.database.compact()
        archived = done.gone[:unused] if self.retention.archive else []
        return Pruned(archived, done.gone[len(archived) :], done.running, done.failed)

    async def _put_unused_away(self, done: _Done, spare: Collection[str]) -> None:
        from zeus_runtime.store.listing import last_used

        log = self.lifecycle.log
        used = await log.database.run(lambda connection: last_used(connection, agent=self.agent))
        # The session of the run that prunes is still claimed.
        waiting = [each for each in due(used, self.retention, log.now_ms()) if each[0] not in spare]
        for session, used_ms in waiting:
            if self.among is not None and session not in self.among:
                continue
            if done.is_enough:
                return
            if self.dry_run:
                done.gone.append(session)
                continue
            try:
                thread = await log.find(session)
            except UsageError:  # another process deleted or archived it meanwhile
                continue
            try:
                give_back = await self.lifecycle.claim(thread)
            except UsageError:
                done.running.append(session)
                continue
            try:
                with done.trying(session):
                    if await self._put_away(thread, used_ms):
                        done.gone.append(session)
            finally:
                give_back()

    async def _put_away(self, thread: Thread, used_ms: int) -> bool:
        """Archive or delete a claimed session, unless it was used since it was found."""
        from zeus_runtime.store.fencing import reading
        from zeus_runtime.store.listing import last_used
        from zeus_runtime.store.session_lock import LogConflictError

        # Read again under the claim: a run may have ended between the listing and the claim.
        try:
            now = await reading(
                self.lifecycle.log.database,
                thread,
                lambda connection: last_used(connection, session=thread.session),
                archived=True,
            )
            # Used, archived or deleted meanwhile: then it is not due any more.
            if now != [(thread.session, used_ms)]:
                return False
            if self.retention.archive:
                await self.lifecycle.archive_claimed(thread)
            else:
                await delete(self.lifecycle, thread)
        except LogConflictError:  # it is deleted, or claimed by a process that does not see this one's lock
            return False
        return True

    async def _delete_expired(self, done: _Done) -> None:
        """Delete the sessions that were archived longer ago than the retention allows."""
        from zeus_runtime.store.session_lock import LogConflictError

        if self.retention.archived_max_age_days is None:
            return
        before_ms = int(self.lifecycle.log.now_ms() - self.retention.archived_max_age_days * DAY_MS)
        for session in await self._archived_before(before_ms):
            if self.among is not None and session not in self.among:
                continue
            if done.is_enough:
                return
            if self.dry_run:
                done.gone.append(session)
                continue
            with done.trying(session), suppress(UsageError, LogConflictError):
                # Another process may have restored, run or deleted it meanwhile.
                async with self.lifecycle.claimed(session) as thread:
                    # Looked up again under the claim, as in `_put_away`.
                    if await self._archived_before(before_ms, session=session):
                        await delete(self.lifecycle, thread)
                        done.gone.append(session)

    async def _archived_before(self, before_ms: int, *, session: str | None = None) -> list[str]:
        from zeus_runtime.store.listing import archived_before

        agent = self.agent if session is None else None
        return await self.lifecycle.log.database.run(
            lambda connection: list(archived_before(connection, before_ms, agent=agent, session=session))
        )


async def prune_daily(lifecycle: SessionLifecycle, retention: Retention, *, agent: str, spare: str) -> None:
    """Prune an agent's sessions once a day for each agent of a database, at most ``AT_ONCE`` sessions at a time."""
    from zeus_runtime.store.maintenance import is_due, not_done

    await _drop_old_events(lifecycle, retention, agent)
    if retention.keeps_all:
        return
    task = f"retention of {agent}"
    if not await is_due(lifecycle.log, task, every_ms=DAY_MS):
        return
    try:
        pruned = await Pruner(lifecycle, retention, agent).run(at_most=AT_ONCE, spare=(spare,))
    except Exception:
        # `is_due` has taken the task for a day; another run should try again before that.
        await not_done(lifecycle.log, task)
        raise
    went = len(pruned.archived) + len(pruned.deleted)
    # Not finished: the next run's end continues without waiting for a day.
    if went >= AT_ONCE or pruned.failed:
        await not_done(lifecycle.log, task)
    if went:
        _log.info("%d session(s) beyond the retention were put away", went)
    if pruned.failed:
        why = "; ".join(f"{session}: {reason}" for session, reason in pruned.failed)
        raise RunError(f"{len(pruned.failed)} session(s) stay ({why})")


async def _drop_old_events(lifecycle: SessionLifecycle, retention: Retention, agent: str) -> None:
    from zeus_runtime.store.event_log import drop_events
    from zeus_runtime.store.maintenance import is_due

    if retention.events_max_age_days is None:
        return
    if not await is_due(lifecycle.log, f"events of {agent}", every_ms=DAY_MS):
        return
    before_ms = int(lifecycle.log.now_ms() - retention.events_max_age_days * DAY_MS)
    await lifecycle.log.database.run(lambda connection: drop_events(connection, before_ms, agent=agent))


def due(used: Sequence[tuple[str, int]], retention: Retention, now_ms: int) -> list[tuple[str, int]]:
    """The sessions that ``retention`` no longer keeps, the longest unused first. Pure.

    Args:
        used: sessions and when each was last used (UTC milliseconds), the last used first.
        now_ms: the current time (UTC milliseconds).
    """
    oldest = None if retention.max_age_days is None else now_ms - retention.max_age_days * DAY_MS
    most = len(used) if retention.max_sessions is None else retention.max_sessions
    gone = [
        each for place, each in enumerate(used) if place >= most or (oldest is not None and each[1] < oldest)
    ]
    # The longest unused first: if `at_most` ends the pruning early, the right ones have gone.
    return gone[::-1]
