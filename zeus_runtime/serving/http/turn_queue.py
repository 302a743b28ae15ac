"""The turns of a service: queued in the database, run in order, resumed by the next process."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from zeus_runtime.errors import BusyError, UsageError, ZeusError
from zeus_runtime.events import Event, RunCompleted, RunFailed
from zeus_runtime.run.attachments import refuse_unshown
from zeus_runtime.run.turn import SESSION_PREFIX, new_session_id
from zeus_runtime.store.turns import (
    StoredTurn,
    TurnState,
    add_turn,
    asked_to_cancel,
    begin_turn,
    cancel_turn,
    find_turn,
    paused_turns,
    set_state,
    setting_state,
    state_in,
    unfinished_sessions,
)
from zeus_runtime.tools.attachments import GivenFile
from zeus_runtime.tools.client_tool import ClientTool
from zeus_runtime.tools.run_to_completion import all_tried

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from zeus_runtime.agent.agent import Agent
    from zeus_runtime.serving.http.hosting import HostedAgent, Hosting
    from zeus_runtime.serving.http.uploads import Uploads
    from zeus_runtime.store.listing import SessionInfo
    from zeus_runtime.store.thread_log import ThreadLog
    from zeus_runtime.store.threads import Owner, Thread

_log = logging.getLogger(__name__)


def session_of_key(owner: Owner | None, key: str) -> str:
    """The session that a request with an idempotency key makes: the same each time, and no other user's."""
    return SESSION_PREFIX + _digest(owner, key)[:12]


MOST_ATTACHED_BYTES: Final = 100_000_000
"""Of one turn: they are in memory while it begins."""
_RUN_BYTES: Final = 8
"""Of a run's id, which the API looks up without its session: twice as many as elsewhere."""


def run_of_key(owner: Owner | None, key: str) -> str:
    """The run that a request with an idempotency key begins in a session."""
    return _digest(owner, key)[: 2 * _RUN_BYTES]


def _digest(owner: Owner | None, key: str) -> str:
    user, project = ("", "") if owner is None else (owner.user, owner.project or "")
    # The separator keeps the user `a` with the project `bc` apart from the user `ab` with the project `c`.
    return hashlib.sha256("\0".join((user, project, key)).encode()).hexdigest()


SEARCH_SECONDS: Final = 20.0
"""How often the databases are searched for turns whose decisions a process that died would have heard of."""


class _RunningTurn(NamedTuple):
    """The turn that runs in a session."""

    agent: Agent
    run: str


class _PostponedTurns(NamedTuple):
    """A session whose turns could not be worked on, and why."""

    hosted: HostedAgent
    owner: Owner | None
    problem: str


class _TimedTurn(NamedTuple):
    """A turn that waits for decisions whose time is limited, and when the last one is over, in UTC milliseconds."""

    hosted: HostedAgent
    until: float


@dataclass
class TurnQueue:
    """Runs the turns of all agents of a service, one at a time in each session."""

    hosting: Hosting
    uploads: Uploads
    over: Callable[[str], None] = lambda _session: None
    """Told of a session with a turn that is over without an event."""
    tell_to_cancel: Callable[[], None] = lambda: None
    """Tells other processes that one of their turns is to be cancelled."""
    _working: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _owners: dict[str, Owner | None] = field(default_factory=dict)
    _running: dict[str, _RunningTurn] = field(default_factory=dict)
    _to_cancel: dict[str, str] = field(default_factory=dict)
    """Sessions with a run that is to be cancelled, which may only be about to begin."""
    _woken: set[str] = field(default_factory=set)
    _unrecovered: Sequence[HostedAgent] = ()
    _postponed: dict[str, _PostponedTurns] = field(default_factory=dict)
    _timed: dict[str, _TimedTurn] = field(default_factory=dict)
    _searched: float = float("-inf")
    # Nobody waits for it: of a bool, mypy takes the value before an await for that after it.
    _closing: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def working(self) -> int:
        """How many sessions have a turn that runs."""
        return len(self._working)

    def __contains__(self, session: str) -> bool:
        """Whether a turn of a session runs here."""
        return session in self._running

    def works_for(self, owner: Owner | None) -> bool:
        """Whether a turn of a user runs, in any role."""
        return any(same_user(each, owner) for each in self._owners.values())

    async def begin_session(
        self, hosted: HostedAgent, owner: Owner | None, *, title: str = "", key: str | None = None
    ) -> SessionInfo:
        """Make a session; with an idempotency key, the same each time."""
        agent = hosted.of(owner)
        session = new_session_id() if key is None else session_of_key(owner, key)
        log = await agent.masked_log()
        return await log.opened(session, agent=hosted.name, title=agent.masked(title))

    async def add(
        self,
        hosted: HostedAgent,
        owner: Owner | None,
        session: str,
        request: Mapping[str, Any],
        *,
        key: str | None = None,
        queue: bool = False,
    ) -> StoredTurn:
        """Begin a turn, or queue it behind the session's others; a known idempotency key gives the turn that it named.

        Args:
            request: ``prompt``, ``attachments`` (uploaded files: ``sha256`` and ``name``), and ``tools``: the client's
                own, as JSON; or ``resume`` to answer the last message again after a rollback or in a fork.
            queue: whether it may wait for others.

        Raises:
            NotFoundError: there is no such session, or no such file of the user.
            BusyError: the session has a turn that is not over, and ``queue`` is false.
            UsageError: there is nothing to answer again, or the agent's model sees no attachments.
        """
        agent = hosted.of(owner)
        # A turn that a repeated request gets back was perhaps stored before its secrets were known.
        log = await agent.masked_log()
        run = secrets.token_hex(_RUN_BYTES) if key is None else run_of_key(owner, f"{session}\0{key}")
        # A repeated request gets its turn back, although that turn has answered the message meanwhile.
        if request.get("resume") and await find_turn(log, run) is None:
            await _refuse_answered(log, await log.find(session))
        await self._check_attached(agent, owner, request)
        # The request stays in the database, so it must not hold a secret that the user pasted.
        masked = agent.masked(dict(request))
        if owner is not None and owner.role is not None:
            masked["role"] = owner.role
        # After the checks above: a turn that is stored runs, whatever becomes of this request.
        turn, is_new = await add_turn(log, session, run, masked, key=agent.masked(key), queue=queue)
        if is_new:
            self.wake(hosted, owner, session)
        return turn

    async def begin(
        self,
        hosted: HostedAgent,
        owner: Owner | None,
        request: Mapping[str, Any],
        *,
        title: str = "",
        key: str | None = None,
    ) -> StoredTurn:
        """Begin a turn in a new session, as ``add`` does; with an idempotency key, the same each time.

        Raises:
            NotFoundError, UsageError: as ``add`` does; no session is made then.
        """
        await self._check_attached(hosted.of(owner), owner, request)
        session = (await self.begin_session(hosted, owner, title=title, key=key)).session
        return await self.add(hosted, owner, session, request, key=key)

    async def _check_attached(self, agent: Agent, owner: Owner | None, request: Mapping[str, Any]) -> None:
        if not request.get("attachments"):
            return
        sizes = [
            await asyncio.to_thread(self.uploads.size, owner, each["sha256"])
            for each in request["attachments"]
        ]
        refuse_unshown(agent.plan)
        if sum(sizes) > MOST_ATTACHED_BYTES:
            raise UsageError(f"the attachments have more than {MOST_ATTACHED_BYTES:,} bytes together")

    def wake(self, hosted: HostedAgent, owner: Owner | None, session: str) -> None:
        """Work on the session's turns, unless that is done already."""
        if session in self._working:
            # `_work` may have found the queue empty already and only not have ended yet: it must look once more.
            self._woken.add(session)
        elif not self._closing.is_set():
            task = asyncio.create_task(self._work(hosted, owner, session), name=f"turns of {session}")
            self._working[session], self._owners[session] = task, owner

    def gave_up(self, hosted: HostedAgent, owner: Owner | None, session: str) -> None:
        """Go on in a session whose turn ended without an event: tell its readers, and begin the next turn."""
        # It never ran or waited, so no event says that it is over: readers have to look.
        self.over(session)
        self.wake(hosted, owner, session)

    async def cancel(self, hosted: HostedAgent, owner: Owner | None, turn: StoredTurn) -> None:
        """Cancel a turn that is not over: its run, or its place in the queue."""
        session = turn.session
        state = await cancel_turn(await hosted.of(owner).log(), turn)
        if state == "cancelled":
            self.gave_up(hosted, owner, session)
        elif state == "running" and (running := self._running_as(turn.run, session)) is not None:
            self._to_cancel[session] = turn.run
            running.agent.cancel(session)
        elif state == "running":
            if session in self._working:
                # `_one` cancels it at its first event, unless another process runs it.
                self._to_cancel[session] = turn.run
            self.tell_to_cancel()

    async def cancel_as_asked(self) -> None:
        """Cancel the turns that run here and that another process was asked to cancel."""
        await all_tried(*(partial(self._cancel_as_asked, each) for each in self.hosting))

    async def _cancel_as_asked(self, hosted: HostedAgent) -> None:
        here = [session for session, each in self._running.items() if each.agent.name == hosted.name]
        if not here:
            return
        # Compared again: during the await, the session's next turn may have begun.
        for session, run in await asked_to_cancel(await hosted.of(None).log(), here):
            if (running := self._running_as(run, session)) is not None:
                running.agent.cancel(session)

    def _running_as(self, run: str, session: str) -> _RunningTurn | None:
        running = self._running.get(session)
        return running if running is not None and running.run == run else None

    async def recover(self) -> None:
        """Continue what an earlier process left, unless another process works on it.

        An agent whose database is away keeps no other from starting: ``recover_rest`` tries it again.

        Raises:
            ZeusError: an agent cannot be opened for another reason, or every database is away.
        """
        self._unrecovered = list(self.hosting)
        problems = [await self._try_to_recover(each) for each in self.hosting]
        # A service that could do nothing must not seem to work.
        if all(problems) and problems[0] is not None:
            raise problems[0]

    async def recover_rest(self) -> None:
        """Try those agents again whose databases were away so far, and sessions whose turns could not be worked on.

        Raises:
            ZeusError: an agent cannot be opened for another reason.
        """
        for session, postponed in list(self._postponed.items()):
            # One that is being tried would be tried again at once: a server that does not answer takes 10 s to say so.
            if session not in self._working:
                self.wake(postponed.hosted, postponed.owner, session)
        await all_tried(*(partial(self._try_to_recover, each) for each in list(self._unrecovered)))

    async def _try_to_recover(self, hosted: HostedAgent) -> ZeusError | None:
        """Recover the turns of an agent; returns the error of a database that is away."""
        try:
            await self._recover(hosted)
        except ZeusError as error:
            if away := await hosted.database_problem():
                if not hosted.away:
                    _log.error("the agent %s waits until its database is back: %s", hosted.name, away)
                hosted.away = away
                return error
            # It came back just now, or something else is wrong.
            await self._recover(hosted)
        self._unrecovered = [each for each in self._unrecovered if each is not hosted]
        if hosted.away:
            _log.warning("the database of the agent %s is back", hosted.name)
            hosted.away = ""
        return None

    async def _recover(self, hosted: HostedAgent) -> None:
        await hosted.prepare(None)
        log = await hosted.of(None).log()
        # The process may have ended between the last decision and the note that the turn goes on.
        await self.resume_decided(hosted, log)
        for session, owner in await unfinished_sessions(log, hosted.name):
            self.wake(hosted, owner, session)

    async def resume_decided(self, hosted: HostedAgent, log: ThreadLog, session: str | None = None) -> None:
        """Resume the waiting turns of an agent for which everything is decided or its time is over.

        Those that wait for nothing but the end of a time are resumed then, by ``resume_overdue``.

        Args:
            session: only its turn.
        """
        for turn, owner, until in await paused_turns(log, hosted.name, session):
            if until <= log.now_ms():
                await set_state(log, turn, "running")
                self.wake(hosted, owner, turn.session)
            elif until < math.inf:
                self._timed[turn.session] = _TimedTurn(hosted, until)

    async def resume_overdue(self) -> None:
        """Resume the turns that wait for requests whose time is over; those of other processes once in a while."""
        now = time.time() * 1000
        due = [(session, each) for session, each in self._timed.items() if each.until <= now]
        searched: list[HostedAgent] = []
        if time.monotonic() - self._searched >= SEARCH_SECONDS:
            self._searched = time.monotonic()
            # `recover_rest` searches that of the others once it is back.
            searched = [each for each in self.hosting if not each.away]
        await all_tried(
            *(partial(self._resume_overdue, *each) for each in due),
            *(partial(self._search, each) for each in searched),
        )

    async def _search(self, hosted: HostedAgent) -> None:
        await hosted.prepare(None)
        await self.resume_decided(hosted, await hosted.of(None).log())

    async def _resume_overdue(self, session: str, timed: _TimedTurn) -> None:
        await timed.hosted.prepare(None)
        await self.resume_decided(timed.hosted, await timed.hosted.of(None).log(), session)
        # Unless it was noted anew, with a later time.
        if self._timed.get(session) is timed:
            del self._timed[session]

    async def aclose(self) -> None:
        """Stop working; turns that run are interrupted, and stay unfinished for the next process."""
        self._closing.set()
        # `suspend` stores no end, unlike `cancel`: the next process finds the turns unfinished.
        for session, running in list(self._running.items()):
            running.agent.suspend(session)
        if self._working:
            await asyncio.wait(self._working.values())

    async def _work(self, hosted: HostedAgent, owner: Owner | None, session: str) -> None:
        try:
            while not self._closing.is_set():
                self._woken.discard(session)
                is_more = False
                try:
                    is_more = await self._one(hosted, owner, session)
                    self._postponed.pop(session, None)
                except BusyError:
                    self._postponed.pop(session, None)
                    _log.debug("%s runs elsewhere", session)
                except UsageError as error:
                    # Deleted or archived meanwhile: a further try would find the same.
                    self._postponed.pop(session, None)
                    _log.warning("the turns of %s wait: %s", session, error)
                except Exception as error:  # noqa: BLE001 - no code awaits the task
                    self._postpone(hosted, owner, session, error)
                # Also after an error: the turn that woke it came after the look at the queue.
                if not is_more and session not in self._woken:
                    break
        finally:
            # `break` leads here without an await, so no call of `wake` is lost after the last look at `_woken`.
            del self._working[session], self._owners[session]
            self._woken.discard(session)
            self._to_cancel.pop(session, None)

    def _postpone(self, hosted: HostedAgent, owner: Owner | None, session: str, error: Exception) -> None:
        """Note a session whose turns cannot be worked on now, such as one whose database is away."""
        is_known = isinstance(error, ZeusError)
        postponed = _PostponedTurns(hosted, owner, str(error) if is_known else repr(error))
        # Of many tries with one result, the log tells of the first.
        if postponed != self._postponed.get(session):
            _log.warning("the turns of %s wait: %s", session, postponed.problem, exc_info=not is_known)
        self._postponed[session] = postponed

    async def _attached(self, owner: Owner | None, turn: StoredTurn) -> Sequence[GivenFile]:
        """The files of a turn's request.

        Raises:
            UsageError: one was deleted meanwhile.
        """
        return [
            GivenFile(each["name"], await asyncio.to_thread(self.uploads.read, owner, each["sha256"]))
            for each in turn.request.get("attachments", ())
        ]

    async def _one(self, hosted: HostedAgent, owner: Owner | None, session: str) -> bool:
        await hosted.prepare(owner)
        log = await hosted.of(owner).log()
        begun = await begin_turn(log, session)
        if begun is None:
            return False
        turn, has_begun = begun
        try:
            return await self._run(hosted, owner, log, turn, has_begun=has_begun)
        except BusyError:
            raise
        except Exception as error:
            if self._closing.is_set():
                raise  # the next process finds the turn unfinished, and resumes it
            if isinstance(error, ZeusError):
                failed = RunFailed(session, error.code, str(error), error.exit_code)
            else:
                _log.exception("the turn %s of %s failed inside the runtime", turn.run, session)
                failed = RunFailed(session, "internal", f"{type(error).__name__}: {error}")
            # If the database is away, this raises, and the turn is tried again once it is back.
            now = await find_turn(log, turn.run)
            # Without an end it would count as running, although nothing works on it, and keep the turns behind it.
            if now is not None and now.state == "running":
                await set_state(log, turn, "failed", ending=hosted.masked(failed.to_wire()))
                self.over(session)
            return True

    async def _run(
        self, hosted: HostedAgent, owner: Owner | None, log: ThreadLog, turn: StoredTurn, *, has_begun: bool
    ) -> bool:
        """Run a turn that was begun; whether another one of its session may follow."""
        agent = await self._agent_for(hosted, owner, turn)
        # No await between this look and the note: `aclose` either is seen here, or finds the session.
        if self._closing.is_set():
            return False
        self._running[turn.session] = _RunningTurn(agent, turn.run)
        end = _TurnEnd(agent, log, turn)
        try:
            resumes = has_begun or bool(turn.request.get("resume"))
            last = await self._driven(agent, owner, turn, end, resumes=resumes)
        except BusyError:
            if end.is_late:
                return True  # another process ended it; one behind it may wait
            raise
        finally:
            del self._running[turn.session]
        if end.state is None and self._is_interrupted(last):
            return False  # without a new state, the next process finds the turn unfinished and resumes it
        await self._settle(hosted, end, last)
        return True

    async def _agent_for(self, hosted: HostedAgent, owner: Owner | None, turn: StoredTurn) -> Agent:
        # Whoever wakes the session, the next process too, the turn runs in the role of the one who asked for it.
        acting = owner and owner._replace(role=turn.request.get("role"))
        # Both owners are prepared: `of` would otherwise plan in the event loop.
        await hosted.prepare(acting)
        return hosted.of(acting)

    async def _driven(
        self, agent: Agent, owner: Owner | None, turn: StoredTurn, end: _TurnEnd, *, resumes: bool
    ) -> Event | None:
        """Drive the run of a turn to its end; the last event."""
        session = turn.session
        tools = [ClientTool.from_json(each) for each in turn.request.get("tools", ())]
        events = (
            agent.resume(session, run_id=turn.run, tools=tools, at_end=end)
            if resumes
            else agent.stream(
                turn.request["prompt"],
                session=session,
                attachments=await self._attached(owner, turn),
                run_id=turn.run,
                tools=tools,
                at_end=end,
            )
        )
        last: Event | None = None
        async for event in events:
            last = event
            if self._closing.is_set():
                # `aclose` came before the run did, and found nothing to suspend.
                agent.suspend(session)
            elif self._to_cancel.get(session) == turn.run:
                agent.cancel(session)
        return last

    def _is_interrupted(self, last: Event | None) -> bool:
        """Whether `aclose` ended a run."""
        return self._closing.is_set() and isinstance(last, RunFailed) and last.code == "cancelled"

    async def _settle(self, hosted: HostedAgent, end: _TurnEnd, last: Event | None) -> None:
        """Store the end of a turn, unless that is done, and tell of it."""
        is_told = end.state is not None and end.state != "cancelled"
        state = await end.stored(last)
        if not is_told:
            # No event tells that it is over: none is stored, or it was cancelled while it waits.
            self.over(end.turn.session)
        if state == "waiting":
            # It may be decided since the run's end, before the turn's new state.
            await self.resume_decided(hosted, end.log, end.turn.session)


class _TurnEnd:
    """Stores a turn's end in the transaction of its run's terminal event, so that a reader of one finds the other.

    Attributes:
        state: the turn's state then; None as long as nothing is noted.
        is_late: whether the turn ended, in another process, before the session was claimed for it here.
    """

    def __init__(self, agent: Agent, log: ThreadLog, turn: StoredTurn) -> None:
        self.state: TurnState | None = None
        self.is_late = False
        self.agent = agent
        self.log = log
        self.turn = turn
        self._is_now: TurnState | None = None

    def claimed(self, connection: Connection) -> None:
        """Check that the turn still runs: the process that had the claim may have ended it meanwhile.

        Raises:
            BusyError: it does not.
        """
        self.is_late = state_in(connection, self.turn) != "running"
        if self.is_late:
            raise BusyError(f"the turn {self.turn.run} of {self.turn.session} was ended by another process")

    def writing(self, event: Event) -> Callable[[Connection], None]:
        """A function that writes the turn's end."""
        assert isinstance(event, RunCompleted | RunFailed)
        ending = self.agent.masked(event.to_wire())
        set_to = setting_state(self.log, self.turn, state_of(event), ending=ending)

        def write(connection: Connection) -> None:
            self._is_now = set_to(connection)

        return write

    def written(self) -> None:
        """The end is committed."""
        self.state = self._is_now

    async def stored(self, last: Event | None) -> TurnState:
        """The turn's state at its end, which is stored now if no event of the run was.

        Args:
            last: the run's last event.
        """
        if self.state is not None:
            return self.state
        assert isinstance(last, RunCompleted | RunFailed)
        ending = self.agent.masked(last.to_wire())
        return await set_state(self.log, self.turn, state_of(last), ending=ending)


def same_user(one: Owner | None, other: Owner | None) -> bool:
    """Whether two owners are one user in one project, in whatever role."""
    return one[:2] == other[:2] if one is not None and other is not None else one is other


async def _refuse_answered(log: ThreadLog, thread: Thread) -> None:
    """Check that nothing was written since a rollback or a fork.

    Raises:
        UsageError: something was.
    """
    if (await log.info(thread)).state != "rolled-back":
        raise UsageError(
            f"the last message of {thread.session} has its answer",
            remedy="Roll the session back or fork it first, or send a prompt.",
        )


def state_of(ending: RunCompleted | RunFailed) -> TurnState:
    """The state of a turn with that terminal event."""
    if isinstance(ending, RunCompleted):
        return "complete"
    return {"approval_needed": "waiting", "cancelled": "cancelled"}.get(ending.code, "failed")  # type: ignore[return-value]
