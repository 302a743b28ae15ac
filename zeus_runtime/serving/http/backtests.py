"""Backtests that users asked for: each runs in the process that was asked, and every process tells of it."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from zeus_runtime.errors import NotFoundError, ZeusError
from zeus_runtime.serving.http.hosting import read_each, sought
from zeus_runtime.serving.http.turn_queue import same_user
from zeus_runtime.store.backtests import (
    BacktestLimits,
    BacktestState,
    StoredBacktest,
    add_backtest,
    add_outcome,
    backtests_of,
    end_backtest,
    find_backtest,
    running_among,
)
from zeus_runtime.tools.run_to_completion import all_tried

if TYPE_CHECKING:
    from zeus_runtime.agent.agent import Agent
    from zeus_runtime.serving.http.hosting import HostedAgent, Hosting
    from zeus_runtime.serving.http.principals import Principal
    from zeus_runtime.store.thread_log import ThreadLog
    from zeus_runtime.store.threads import Owner

_log = logging.getLogger(__name__)

Play: TypeAlias = Callable[[], Awaitable[Mapping[str, Any]]]

LIMITS: Final = BacktestLimits(running=3, kept=20)


class Replay(NamedTuple):
    """A session to be played under one config.

    Args:
        policy: the config's name.
        play: plays it, and gives the outcome.
    """

    session: str
    policy: str
    play: Play


@dataclass
class _Running:
    """A backtest that runs here.

    Args:
        hosted: the agent in whose database it is.
        release: gives back the lock by which other processes know that this one runs it.
    """

    hosted: HostedAgent
    owner: Owner | None
    release: Callable[[], None]
    task: asyncio.Task[None] | None = None

    async def log(self) -> ThreadLog:
        """The log, of an agent that is open now."""
        await self.hosted.prepare(self.owner)
        return await self.hosted.of(self.owner).log()


@dataclass
class Backtests:
    """The backtests of a service.

    Args:
        hosting: the agents, in whose databases they are.
        mask: masks known secrets in a text.
    """

    hosting: Hosting
    mask: Callable[[str], str]
    tell_to_cancel: Callable[[], None] = lambda: None
    """Tells other processes that one of their backtests was cancelled."""
    _here: dict[str, _Running] = field(default_factory=dict)

    def works_for(self, owner: Owner | None) -> bool:
        """Whether a backtest of a user runs here: its lock is a connection of the user's agent."""
        return any(same_user(each.owner, owner) for each in self._here.values())

    async def begin(
        self, hosted: HostedAgent, owner: Owner | None, replays: Sequence[Replay], *, key: str | None = None
    ) -> StoredBacktest:
        """Begin a backtest; a known key gives the one that it named.

        Args:
            hosted: an agent whose database has all the sessions.
            key: tells it from all others.

        Raises:
            LimitError: too many of the user's run.
        """
        log = await hosted.of(owner).masked_log()
        # Those whose process died count as running until a look at them, and would use up the limit.
        for each in await backtests_of(log):
            await self._settled(log, each)
        name = f"backtest_{secrets.token_hex(8)}"
        # Before the row: without the lock, `_settled` of another process would find a running row, and note it as lost.
        release = await log.database.hold(name)
        assert release is not None, "the name is new"
        # Before the row, too: a request here that lists backtests must not try the lock.
        running = self._here[name] = _Running(hosted, owner, release)
        try:
            named = [(each.session, each.policy) for each in replays]
            stored = await add_backtest(log, name, named, LIMITS, key=key)
            if stored.id == name:
                running.task = asyncio.create_task(self._run(name, running, replays), name=name)
                # Not by the task itself, which may be cancelled before it begins.
                running.task.add_done_callback(lambda _task: self._ended(name))
        finally:
            if running.task is None:
                self._ended(name)
        return stored

    async def of(self, caller: Principal) -> tuple[Sequence[StoredBacktest], Mapping[str, Exception]]:
        """The caller's, oldest first: those of agents that the caller may use.

        Returns:
            also why agents could not be read, by their names.

        Raises:
            Exception: no agent could be read.
        """
        found: dict[str, StoredBacktest] = {}
        places: set[str] = set()

        async def read(_hosted: HostedAgent, agent: Agent) -> None:
            log = await agent.masked_log()
            if log.database.place not in places:
                for stored in await backtests_of(log):
                    each = await self._settled(log, stored)
                    if each.state != "lost" and all(map(caller.may_use, each.agents)):
                        found[each.id] = each
                places.add(log.database.place)

        _, unread = await read_each(self._agents_of(caller), caller.owner, read)
        return sorted(found.values(), key=lambda each: each.created_ms), unread

    async def find(self, caller: Principal, name: str) -> StoredBacktest:
        """One of the caller's.

        Raises:
            NotFoundError: there is none of that name, or it is lost.
        """
        return (await self._found(caller, name))[1]

    async def cancel(self, caller: Principal, name: str) -> StoredBacktest:
        """End a backtest that runs, here or in another process; the outcomes that it has stay.

        Raises:
            NotFoundError: there is none of that name, or it is lost.
        """
        log, stored = await self._found(caller, name)
        if stored.state != "running":
            return stored
        # First in the database: the task may end meanwhile, and only one of the two ends counts.
        await end_backtest(log, name, "cancelled")
        if name in self._here:
            await self._stop(name)
        else:
            self.tell_to_cancel()
        return await self.find(caller, name)

    async def cancel_as_asked(self) -> None:
        """End the backtests that run here and that another process was asked to cancel."""
        await all_tried(*(partial(self._cancel_as_asked, *each) for each in list(self._here.items())))

    async def _cancel_as_asked(self, name: str, running: _Running) -> None:
        if running.task is not None and not await running_among(await running.log(), [name]):
            await self._stop(name)

    async def aclose(self) -> None:
        """End all that run here, which are lost."""
        await asyncio.gather(*map(self._stop, list(self._here)))

    def _agents_of(self, caller: Principal) -> Sequence[HostedAgent]:
        return [each for each in self.hosting if caller.may_use(each.name)]

    async def _found(self, caller: Principal, name: str) -> tuple[ThreadLog, StoredBacktest]:
        async def look(_hosted: HostedAgent, agent: Agent) -> tuple[ThreadLog, StoredBacktest] | None:
            log = await agent.masked_log()
            stored = await find_backtest(log, name)
            if stored is None or not all(map(caller.may_use, stored.agents)):
                return None
            return log, await self._settled(log, stored)

        found = await sought(self._agents_of(caller), caller.owner, look)
        if found is None:
            raise NotFoundError(f"there is no backtest {name!r}", remedy="`GET /v1/backtests` lists them.")
        if found[1].state == "lost":
            raise NotFoundError(
                f"the backtest {name} is lost: the process that ran it has ended",
                remedy="Begin it again.",
            )
        return found

    async def _settled(self, log: ThreadLog, stored: StoredBacktest) -> StoredBacktest:
        """The backtest, which is noted as lost if no process runs it any more: its lock is free."""
        if stored.state != "running" or stored.id in self._here:
            return stored
        release = await log.database.hold(stored.id)
        if release is None:
            return stored
        try:
            await end_backtest(log, stored.id, "lost")  # unless it has just ended
            return await find_backtest(log, stored.id) or stored
        finally:
            release()

    async def _stop(self, name: str) -> None:
        task = self._here[name].task if name in self._here else None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    def _ended(self, name: str) -> None:
        self._here.pop(name).release()

    async def _run(self, name: str, running: _Running, replays: Sequence[Replay]) -> None:
        state: BacktestState = "complete"
        problem = ""
        try:
            try:
                for number, each in enumerate(replays):
                    # False once the row has ended: it was cancelled through another process.
                    if not await add_outcome(await running.log(), name, number, await each.play()):
                        return
            except ZeusError as error:
                state, problem = "failed", str(error)
            except Exception as error:  # noqa: BLE001 - its user reads it in the outcome; no code awaits the task
                _log.exception("the backtest %s failed", name)
                state, problem = "failed", f"{type(error).__name__}: {error}"
            await end_backtest(await running.log(), name, state, problem=self.mask(problem))
        except ZeusError as error:
            _log.warning("the backtest %s is lost: %s", name, error)
