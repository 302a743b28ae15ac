"""The service: its agents, its turns, its readers, and who may use them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from zeus_runtime.errors import NotFoundError, UsageError, ZeusError
from zeus_runtime.serving.http.backtests import Backtests
from zeus_runtime.serving.http.hosting import HostedAgent, read_each, sought
from zeus_runtime.serving.http.hub import Hub
from zeus_runtime.serving.http.key_ring import KeyRing
from zeus_runtime.serving.http.limits import CallerLimits
from zeus_runtime.serving.http.metrics import Metrics
from zeus_runtime.serving.http.oidc import TokenIssuers
from zeus_runtime.serving.http.open_streams import CHECK_SECONDS, OpenStreams
from zeus_runtime.serving.http.principals import LocalToken, Principal, UnknownPrincipalError
from zeus_runtime.serving.http.replicas import Replicas
from zeus_runtime.serving.http.settings import Settings
from zeus_runtime.serving.http.turn_queue import TurnQueue, run_of_key, same_user
from zeus_runtime.serving.http.uploads import Uploads
from zeus_runtime.store.schema import ready
from zeus_runtime.store.service_audit import AuditEntry, add_entry, expire
from zeus_runtime.store.session_tree import outermost_of
from zeus_runtime.store.turns import find_turn, next_turn, set_state, waiting_turn
from zeus_runtime.tools.run_to_completion import all_tried, finished

if TYPE_CHECKING:
    from zeus_runtime.agent.agent import Agent
    from zeus_runtime.serving.http.hosting import Hosting
    from zeus_runtime.store.database import Database
    from zeus_runtime.store.threads import Owner
    from zeus_runtime.store.turns import StoredTurn
    from zeus_runtime.tools.approval import Decision, PendingApproval

T = TypeVar("T")

_log = logging.getLogger(__name__)

_DAY: Final = 86_400


@dataclass
class _Work:
    """A work that the watch of a service does again and again.

    Args:
        name: for the log.

    Attributes:
        problem: why the last try failed; empty if it did not.
    """

    name: str
    work: Callable[[], Awaitable[None]]
    problem: str = ""

    async def done(self, mask: Callable[[str], str]) -> None:
        """Do it once. The log tells when it begins to fail, when the reason changes, and when it works again."""
        former, self.problem = self.problem, ""
        try:
            await self.work()
        except Exception as error:  # noqa: BLE001 - it must keep neither the others nor the next round from running
            is_known = isinstance(error, ZeusError)
            # Each once: `all_tried` notes the same error of a database for every session that needs it.
            told = dict.fromkeys((str(error) if is_known else repr(error), *getattr(error, "__notes__", ())))
            self.problem = mask("\n".join(told))
            if self.problem != former:
                _log.error("%s fails, and is tried again: %s", self.name, self.problem, exc_info=not is_known)
        if former and not self.problem:
            _log.warning("%s works again", self.name)


class OwnersAgent(NamedTuple):
    """The agent in which a session's turns run.

    Args:
        owner: the session's; None if it was begun without a service's user.
    """

    hosted: HostedAgent
    agent: Agent
    owner: Owner | None


@dataclass
class Service:
    """All that the routes work with.

    Args:
        hosting: the agents.
        token: the token of the user who started it; None if only keys are accepted.
        hub: passes on stored events.
        settings: how much callers may ask for.
        database: the service's own, of keys and audit log; None for a service without them.
    """

    hosting: Hosting
    token: LocalToken | None
    hub: Hub
    settings: Settings = field(default_factory=Settings)
    database: Database | None = None
    keys: KeyRing | None = field(init=False, default=None)
    issuers: TokenIssuers = field(init=False)
    limits: CallerLimits = field(init=False)
    metrics: Metrics = field(init=False)
    turns: TurnQueue = field(init=False)
    streams: OpenStreams = field(init=False)
    replicas: Replicas = field(init=False)
    present: Counter[Owner | None] = field(init=False, default_factory=Counter)
    """The users with open requests, and how many."""
    _expired: float = field(init=False, default=0.0)
    _watching: asyncio.Task[None] | None = field(init=False, default=None)
    uploads: Uploads = field(init=False)
    backtests: Backtests = field(init=False)
    replaying: asyncio.Lock = field(init=False, default_factory=asyncio.Lock)
    """Held while a session is replayed, which takes a core."""

    def __post_init__(self) -> None:
        directory = next(iter(self.hosting)).checked.directory
        self.uploads = Uploads(directory, self.settings.limits)
        self.turns = TurnQueue(self.hosting, self.uploads, over=self.hub.wake)
        self.backtests = Backtests(self.hosting, self.mask)
        self.replicas = Replicas(self.hosting, self.hub, self.turns, self.backtests)
        self.limits = CallerLimits(self.settings.limits)
        self.metrics = Metrics(lambda: self.turns.working)
        self.issuers = TokenIssuers(self.settings.oidc)
        self.streams = OpenStreams(self.caller)
        if self.database is not None:
            self.keys = KeyRing(self.database)
        if self.token is not None:
            self.hosting.learned.add(self.token.text, "ZEUS_TOKEN")

    async def start(self) -> None:
        """Resume what an earlier process left, once; a service that cannot start is closed."""
        if self._watching is not None:
            return
        try:
            await self._begin()
        except BaseException:
            await self.aclose()
            raise
        # Last: it may close idle agents, and knows a user as busy only by the turns that run.
        self._watching = asyncio.create_task(self._watch(), name="watch of a service")

    async def _begin(self) -> None:
        if self.database is not None:
            await ready(self.database)
        await self.turns.recover()
        await self.replicas.look()

    def stop(self) -> None:
        """End all streams, and all requests that wait for a turn; the next process resumes the turns."""
        self.hub.stop()
        self.streams.stop()

    async def aclose(self) -> None:
        """Interrupt the running turns, which the next process resumes, and close everything."""
        self.stop()
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait((self._watching,))
        of_keys = None if self.keys is None else self.keys.aclose
        of_database = None if self.database is None else self.database.close
        # In this order: turns store last events, `replicas` tells of them, and `hosting` closes their databases.
        works = (self.backtests, self.turns, self.replicas, self.hosting)
        await all_tried(*(each.aclose for each in works), of_keys, of_database)

    async def _watch(self) -> None:
        works = (
            _Work("the check of open streams", self.streams.check),
            _Work("the wait for databases that were away", self.turns.recover_rest),
            _Work("the look at other processes", self.replicas.look),
            _Work("the search for decisions whose time is over", self.turns.resume_overdue),
            _Work("the search for idle agents", self._let_idle_go),
            _Work("the search for old entries of the audit log", self._expire),
            _Work("the look at changed configs", self._look_for_turns),
        )
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            for each in works:
                await each.done(self.mask)

    async def _look_for_turns(self) -> None:
        # Turns must not change what an edited config names until somebody asks.
        if self.turns.working:
            await self.hosting.look()

    async def _expire(self) -> None:
        days, now = self.settings.audit.max_age_days, time.time()
        if self.database is None or days is None or now - self._expired < _DAY:
            return
        # Noted before it is done: a removal that fails is not repeated at every look.
        self._expired = now
        try:
            number = await expire(self.database, round((now - days * _DAY) * 1000))
        except ZeusError as error:
            _log.warning("old entries of the audit log stay for another day: %s", error)
            return
        if number:
            _log.info("%d entries of the audit log are older than %g days and were removed", number, days)

    async def _let_idle_go(self) -> None:
        def is_busy(owner: Owner | None) -> bool:
            present = any(same_user(each, owner) for each in self.present)
            return present or self.turns.works_for(owner) or self.backtests.works_for(owner)

        most = self.settings.agents
        let_go = partial(
            HostedAgent.let_idle_go, is_busy=is_busy, most=most.most_open, idle_seconds=most.idle_seconds
        )
        await all_tried(*(partial(let_go, each) for each in self.hosting))

    def left(self, owner: Owner | None) -> None:
        """Count down a request of a user that was counted in ``present``."""
        self.present[owner] -= 1
        if self.present[owner] <= 0:
            del self.present[owner]

    async def prepare(self, caller: Principal) -> None:
        """Read changed configs and plan the caller's agents in a thread, so that other requests continue meanwhile.

        An agent that cannot be planned fails only the requests that need it: ``HostedAgent.of`` raises the error.
        """
        await self.hosting.look()
        for each in self.agents_of(caller):
            # The plan of no user knows the secrets that errors are masked with.
            for owner in (None, caller.owner):
                with suppress(Exception):
                    await each.prepare(owner)

    async def caller(self, token: str | None) -> Principal:
        """The caller with that token; an issuer's is a secret of the caller's agents from now on, all others always.

        Raises:
            UnknownPrincipalError: there is none.
        """
        found = None
        if token and self.token is not None:
            found = self.token.caller(token)
        if token and found is None and self.keys is not None:
            found = await self.keys.caller(token)
        if token and found is None and (found := await self.issuers.caller(token)):
            for each in self.agents_of(found):
                each.know(found.owner, token)
        if found is None:
            raise UnknownPrincipalError(
                "no valid token was given", remedy="Send the header `Authorization: Bearer TOKEN`."
            )
        return found

    def mask(self, value: T) -> T:
        """A text or JSON value with the secrets of all agents masked."""
        for each in self.hosting:
            value = each.masked(value)
        return value

    def agents_of(self, caller: Principal) -> Sequence[HostedAgent]:
        """The agents that the caller may use."""
        return [each for each in self.hosting if caller.may_use(each.name)]

    def agent(self, caller: Principal, name: str | None) -> HostedAgent:
        """The agent of that name; without a name the only one.

        Raises:
            NotFoundError: there is none that the caller may use.
        """
        found = self.hosting.named(name)
        if not caller.may_use(found.name):
            raise NotFoundError(f"there is no agent {name!r}")
        return found

    async def of_session(self, caller: Principal, session: str) -> tuple[HostedAgent, Agent]:
        """The agent of a session.

        Raises:
            NotFoundError: there is no such session, or it is another user's.
        """

        async def look(hosted: HostedAgent, agent: Agent) -> tuple[HostedAgent, Agent] | None:
            log = await agent.log()
            # Agents may share a database, and the name of a sub-agent's session begins with the agent just above it.
            outermost = await outermost_of(log, session)
            if outermost is None or await log.agent_of(outermost) != hosted.name:
                return None
            # Before a route masks anything: each that names a session comes here.
            await agent.look_at(session)
            return hosted, agent

        if (found := await self._sought(caller, look)) is None:
            raise NotFoundError(f"there is no session {session!r}")
        return found

    @asynccontextmanager
    async def for_owner(self, caller: Principal, session: str) -> AsyncIterator[OwnersAgent]:
        """The agent of a session's owner, who may be another than the caller; inside, it stays open.

        Whatever writes to a session, or reads its workspace, uses it: the workspace and the memories are the owner's.

        Raises:
            NotFoundError: there is no such session, or the caller does not reach it.
        """
        hosted, agent = await self.of_session(caller, session)
        # Only a caller without a user reaches the sessions of others.
        owner = caller.owner or await (await agent.log()).owner_of(session)
        self.present[owner] += 1
        try:
            await hosted.prepare(owner)
            if owner != caller.owner:
                await hosted.of(owner).look_at(session)
            yield OwnersAgent(hosted, hosted.of(owner), owner)
        finally:
            self.left(owner)

    async def add_turn(
        self, caller: Principal, session: str, request: Mapping[str, Any], *, key: str | None, queue: bool
    ) -> StoredTurn:
        """Begin a turn of a session's owner, as ``TurnQueue.add`` does.

        Raises:
            NotFoundError, BusyError, UsageError: as ``TurnQueue.add`` does.
        """
        async with self.for_owner(caller, session) as (hosted, _, owner):
            if owner != caller.owner:
                # The same key of the owner names another turn.
                key = None if key is None else run_of_key(caller.owner, key)
                for each in request.get("attachments", ()):
                    await asyncio.to_thread(self.uploads.hand_over, caller.owner, owner, each["sha256"])
            return await self.turns.add(hosted, owner, session, request, key=key, queue=queue)

    async def cancel(self, caller: Principal, turn: StoredTurn) -> None:
        """Cancel a turn of a session's owner, as ``TurnQueue.cancel`` does.

        Raises:
            NotFoundError: its session does not exist any more.
        """
        async with self.for_owner(caller, turn.session) as (hosted, _, owner):
            await self.turns.cancel(hosted, owner, turn)

    async def of_run(self, caller: Principal, run: str) -> tuple[HostedAgent, Agent, StoredTurn]:
        """The agent and the turn of a run.

        Raises:
            NotFoundError: there is no such run, or it is another user's.
        """

        async def look(hosted: HostedAgent, agent: Agent) -> tuple[HostedAgent, Agent, StoredTurn] | None:
            # Agents may share a database: the one whose session it is works on the turn.
            turn = await find_turn(await agent.masked_log(), run, agent=hosted.name)
            return None if turn is None else (hosted, agent, turn)

        if (found := await self._sought(caller, look)) is None:
            raise NotFoundError(f"there is no run {run!r}")
        return found

    async def _sought(
        self, caller: Principal, look: Callable[[HostedAgent, Agent], Awaitable[T | None]]
    ) -> T | None:
        """What the first of the caller's agents finds, also if another one cannot be read.

        Raises:
            Exception: none finds it, and this one could not be read: it may be there.
        """
        return await sought(self.agents_of(caller), caller.owner, look)

    async def read_each(
        self,
        caller: Principal,
        read: Callable[[HostedAgent, Agent], Awaitable[T]],
        agents: Sequence[HostedAgent] | None = None,
    ) -> tuple[Sequence[T], Mapping[str, Exception]]:
        """What each of the agents gives, and why others could not be read, by their names.

        Args:
            agents: those; None for all of the caller's.

        Raises:
            Exception: no agent could be read.
        """
        return await read_each(self.agents_of(caller) if agents is None else agents, caller.owner, read)

    async def approvals(
        self, caller: Principal
    ) -> tuple[Sequence[tuple[HostedAgent, PendingApproval]], Mapping[str, Exception]]:
        """The calls that wait for a decision, oldest first, each with the agent whose session it is.

        Returns:
            also why agents could not be read, by their names.

        Raises:
            Exception: no agent could be read.
        """
        found: dict[str, tuple[HostedAgent, PendingApproval]] = {}

        async def read(_hosted: HostedAgent, agent: Agent) -> None:
            for pending in await agent.pending_approvals():
                if pending.id in found:
                    continue
                with suppress(NotFoundError):  # the session of an agent that the caller may not use
                    own, _ = await self.of_session(caller, await agent.outermost(pending.session))
                    found[pending.id] = own, pending

        _, unread = await self.read_each(caller, read)
        return sorted(found.values(), key=lambda each: each[1].created_ms), unread

    async def decide(
        self, caller: Principal, decisions: Mapping[str, Decision], *, seen: Mapping[str, str | None]
    ) -> tuple[OwnersAgent, str, bool]:
        """Decide waiting calls of one turn, all of them or none, and resume the turn once nothing else waits.

        Args:
            decisions: by the ids of the calls; at least one.
            seen: what the caller saw of them, as ``Agent.decide`` takes it.

        Returns:
            in which agent the turn is resumed, its session, and whether a call is approved and outdated.

        Raises:
            NotFoundError: there is no such call.
            UsageError: one is decided already, or has a member without effect.
        """
        async with self.for_approval(caller, next(iter(decisions))) as (found, session):
            for name, each in decisions.items():
                # Who sends them may have meant the other decision.
                if each.answer == "approve" and each.reason:
                    why = "`reason` goes with a rejection, and a text with an approval is an `instruction`"
                    raise UsageError(f"{name} cannot be decided so: {why}")
                if each.answer == "reject" and each.arguments is not None:
                    raise UsageError(f"{name} cannot be decided so: changed arguments go with an approval")
            outdated = await self.settle(found, session, decisions, seen=seen, by=caller)
        return found, session, bool(outdated)

    @asynccontextmanager
    async def for_approval(self, caller: Principal, name: str) -> AsyncIterator[tuple[OwnersAgent, str]]:
        """The agent of the owner of a call that waits for a decision, or waited, and the session whose turn waits.

        Raises:
            NotFoundError: there is no such call.
        """

        async def look(_hosted: HostedAgent, agent: Agent) -> str | None:
            if (asking := await agent.asking_session(name)) is None:
                return None
            outermost = await agent.outermost(asking)
            with suppress(NotFoundError):  # the session of an agent that the caller may not use
                await self.of_session(caller, outermost)
                return outermost
            return None

        if (session := await self._sought(caller, look)) is None:
            raise NotFoundError(f"no call with the id {name!r} waits for a decision")
        async with self.for_owner(caller, session) as found:
            yield found, session

    async def settle(
        self,
        found: OwnersAgent,
        session: str,
        decisions: Mapping[str, Decision],
        *,
        seen: Mapping[str, str | None] | None,
        by: Principal | None,
    ) -> Sequence[PendingApproval]:
        """Decide waiting calls of a session, all of them or none, and resume its turn once nothing else waits.

        Args:
            seen: what the caller saw of them, as ``Agent.decide`` takes it.
            by: whose decisions the audit log has; None for the results of a client's own tools.

        Returns:
            the approved calls whose approval will not hold.

        Raises:
            UsageError: a decision is not possible.
        """

        async def decided() -> Sequence[PendingApproval]:
            outdated = await found.agent.decide(session, decisions, seen=seen)
            if by is not None:
                await self._note_decisions(by, found.hosted.name, session, decisions)
            return outdated

        # A client that leaves must not part a decision from its row.
        outdated = await finished(decided())
        # Of two who decide the last two calls at once, both may find none left: waking twice is harmless.
        if not await found.agent.pending_approvals(session):
            await self._continue(found, session)
        else:
            # The time of the others may be over, or limited.
            await self.turns.resume_decided(found.hosted, await found.agent.log(), session)
        return outdated

    async def _note_decisions(
        self, by: Principal, agent: str, session: str, decisions: Mapping[str, Decision]
    ) -> None:
        for approval, decision in decisions.items():
            # Here and not with the request: one request of a protocol decides several calls, in no route of ours.
            await self.audit(
                AuditEntry(
                    at_ms=round(time.time() * 1000),
                    user_id=None if by.owner is None else by.owner.user,
                    caller=by.id,
                    action="decide",
                    agent=agent,
                    session=session,
                    subject=approval,
                    decision=decision.answer,
                    status=200,
                    outcome="done",
                )
            )

    async def audit(self, entry: AuditEntry) -> None:
        """Add an act to the audit log, if the service has one."""
        if self.database is None:
            return
        try:
            await add_entry(self.database, entry)
        except ZeusError:
            # The act is done; without its entry the operator has to know.
            self.metrics.unaudited.inc()
            _log.exception("an act is missing in the audit log: %s", entry)

    async def _continue(self, found: OwnersAgent, session: str) -> None:
        log = await found.agent.log()
        thread = await log.find(session)
        # No turn waits if its run has not ended yet: `TurnQueue._settle` looks again once it has.
        if (turn := await waiting_turn(log, thread)) is not None:
            await set_state(log, turn, "running")
        if await next_turn(log, thread) is not None:
            self.turns.wake(found.hosted, found.owner, session)


def as_json(turn: StoredTurn) -> Mapping[str, Any]:
    """A turn as the API shows it."""
    return {
        "run": turn.run,
        "session": turn.session,
        "number": turn.number,
        "state": turn.state,
        "prompt": turn.request.get("prompt", ""),
        "attachments": list(turn.request.get("attachments", ())),
        "created_ms": turn.created_ms,
        "started_ms": turn.started_ms,
        "ended_ms": turn.ended_ms,
        "ending": turn.ending,
    }
