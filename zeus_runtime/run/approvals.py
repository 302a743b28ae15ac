"""A run's questions to its user: written down before anybody is asked, answered now or when the run is taken up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime.config.secrets.masking import Redactor
from zeus_runtime.errors import UsageError, ZeusError
from zeus_runtime.events import ApprovalDecided, ApprovalRequested, Event, Notice
from zeus_runtime.tools.approval import ApprovalPending, Decision
from zeus_runtime.tools.pausable_timeout import all_standing_still
from zeus_runtime.tools.preview import MadeChanges, Preview, masked, preview_of, redacted
from zeus_runtime.tools.tool import ToolResult

if TYPE_CHECKING:
    from zeus_runtime.store.thread_log import ThreadLog
    from zeus_runtime.store.threads import Thread
    from zeus_runtime.tools.approval import (
        ApprovalChannel,
        ApprovalRequest,
        AskMode,
        AskModes,
        Judge,
        PendingApproval,
    )
    from zeus_runtime.tools.pausable_timeout import Clock
    from zeus_runtime.tools.tool import JSON, Tool, ToolCall


class ApprovalNeededError(ZeusError):
    """A run cannot go on before somebody decides (exit 7); ``pending`` says what."""

    exit_code = 7
    code = "approval_needed"

    def __init__(self, session: str, pending: Sequence[PendingApproval]) -> None:
        calls = ", ".join(f"{each.tool} ({each.id})" for each in pending)
        super().__init__(
            f"{len(pending)} {'call waits' if len(pending) == 1 else 'calls wait'} for approval: {calls}",
            remedy=f"Decide and go on with `zeus resume {session} --decide ID=approve` or `--decide ID=reject:REASON`."
            " To run tools without asking, pass `--yes` for one run, or write `approvals: run_everything` in the"
            " config.",
        )
        self.pending = tuple(pending)


_WITHIN: Final[ContextVar[asyncio.Lock | None]] = ContextVar("within", default=None)
"""The lock of what the approved call of this context starts: a sub-agent that waits for that call waits for ever."""


class Signing:
    """The approved changes of a run and its sub-agents, which are made one after the other.

    Attributes:
        made: the changes so far.
    """

    def __init__(self) -> None:
        self.made = MadeChanges()
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """While inside, no other approved change is compared or made, but for those of the call's own sub-agents."""
        async with _WITHIN.get() or self._lock:
            token = _WITHIN.set(asyncio.Lock())
            try:
                yield
            finally:
                _WITHIN.reset(token)


class ApprovalBroker:
    """One run's ``Approvals``.

    Args:
        log: where questions are written; None for a simulation, in which nobody is asked.
        user: whose allowlist and choice of mode hold.
        redact: masks secrets in a JSON value that is told.
        known: the secrets that are masked in what is approved.
        secrets: what is masked in arguments that somebody changed, as in those that a model writes.
        emit: where events go.
        channel: who can be asked now; None: nobody.
        person: whom the run that this one works for asks.
        signing: of the run that this one works for.
        clocks: the time limits of what this run works for.

    Attributes:
        person: whom its questions go to: the same object for a run and its sub-agents.
        signing: how approved changes are made: the same object for a run and its sub-agents.
    """

    def __init__(
        self,
        log: ThreadLog | None = None,
        *,
        user: str = "",
        redact: Callable[[Any], Any] = lambda value: value,
        known: Redactor | None = None,
        secrets: Redactor | None = None,
        emit: Callable[[Event], None] = lambda _event: None,
        channel: ApprovalChannel | None = None,
        person: object = None,
        signing: Signing | None = None,
        clocks: Sequence[Clock] = (),
    ) -> None:
        self._given_log = log
        self.user = user
        self.redact = redact
        self._told = known or Redactor()
        self._known = self._told.masked
        self._secrets = secrets or Redactor()
        self._emit = emit
        self.channel = channel
        self.person: object = person or channel or self
        self.signing = signing or Signing()
        self._clocks = tuple(clocks)
        self._judges: list[Judge] = []
        self._thread: Thread | None = None
        self._run_id = ""
        self._has_asked: bool | None = None
        self._heard: set[str] = set()
        self._approved: dict[tuple[str, str], tuple[str | None, Mapping[str, JSON]]] = {}
        self._refused_mode: str | None = None

    def begin(self, thread: Thread, run_id: str) -> None:
        """Say whose questions they are, before the first one."""
        self._thread, self._run_id = thread, run_id

    def judged_by(self, judge: Judge) -> None:
        """Let ``judge`` say of each call whether it needs approval."""
        self._judges.append(judge)

    async def requires(self, call: ToolCall) -> bool:
        """Whether a call needs approval, as those say who will ask for it."""
        for judge in self._judges:
            if await judge(call):
                return True
        return False

    async def is_allowed(self, tool: str) -> bool:
        """Whether the user's stored allowlist has the tool."""
        from zeus_runtime.store.approvals import is_allowed

        return await is_allowed(self._log, self.user, tool)

    async def mode(self, modes: AskModes) -> AskMode:
        """How often the user is asked; a stored choice that the config does not allow is told once a run."""
        from zeus_runtime.store.approvals import stored_mode

        chosen = await stored_mode(self._log, self.user)
        if chosen is not None and chosen not in modes.choices and chosen != self._refused_mode:
            self._refused_mode = chosen
            self._emit(
                Notice(
                    "approval_mode",
                    f"{self.user} chose the approval mode {chosen!r}, which this config does not allow:"
                    f" {modes.configured!r} holds (`zeus approvals mode`).",
                )
            )
        return modes.in_force(chosen)

    async def settled(self, request: ApprovalRequest, *, waits_on: bool = False) -> Decision | None:
        """What was decided on a call that needs no approval now."""
        from zeus_runtime.store.approvals import close

        assert self._thread is not None, "a run begins before its calls"
        if waits_on and await self._open(request) is not None:
            return await self.ask(request)
        if not await self._asked_before():
            return None
        pending = await close(self._log, self._thread, self._run_id, request)
        return None if pending is None else self._told_decision(pending, request)

    async def held(self, request: ApprovalRequest) -> Decision | None:
        """What holds of a call that no middleware of this config asks about: the run may have been begun with one that
        did.

        Raises:
            ApprovalPending: it was asked then, and nobody has decided.
        """
        if self._judges or self._given_log is None or self._thread is None or request.place in self._heard:
            return None
        if await self._open(request) is not None:
            return await self.ask(request)
        return await self.settled(request)

    def has_approved(self, request: ApprovalRequest) -> bool:
        """Whether this call, with these arguments, was approved in this process."""
        return (request.place, request.digest) in self._approved

    async def signed(
        self, tool: Tool, request: ApprovalRequest, run: Callable[[], Awaitable[ToolResult]]
    ) -> ToolResult:
        """What a call gives; an approved call that must not run gives what the model is told instead.

        It must not if the call that the user was shown would change something else by now, also where the user changed
        its arguments. Approved changes run one after the other: none comes between another one's check and its change.
        """
        if (request.place, request.digest) not in self._approved:
            return await run()
        shown, arguments = self._approved[request.place, request.digest]
        if tool.preview is None:
            return _outdated(tool.name) if shown else await run()
        async with self.signing.alone():
            made = self.signing.made
            # Where no diff could be shown, the arguments are what was approved.
            if shown != "" and not made.still(shown, await self._change(tool, arguments)):
                return _outdated(tool.name)
            change = await self._change(tool, request.arguments)
            result = await run()
            if change is not None and not result.is_error:
                made.note(change)
            return result

    async def _change(self, tool: Tool, arguments: Mapping[str, JSON]) -> Preview | None:
        change = await preview_of(tool, arguments, self._secrets)
        return change and redacted(change, self._known)

    async def _asked_before(self) -> bool:
        """Whether this run has asked anything yet."""
        from zeus_runtime.store.approvals import has_asked

        assert self._thread is not None, "a run begins before its calls"
        if self._has_asked is None:
            self._has_asked = await has_asked(self._log, self._thread, self._run_id)
        return self._has_asked

    async def _open(self, request: ApprovalRequest) -> PendingApproval | None:
        """The question about this call that this run asked and nobody has decided."""
        from zeus_runtime.store.approvals import open_approvals

        assert self._thread is not None, "a run begins before its calls"
        if not await self._asked_before():
            return None
        here = (self._run_id, request.place, request.digest)
        waiting = await open_approvals(self._log, self._thread.session)
        return next((each for each in waiting if (each.run_id, each.place, each.digest) == here), None)

    async def ask(self, request: ApprovalRequest, *, clocks: Sequence[Clock] = ()) -> Decision:
        """The decision on ``request``.

        Args:
            clocks: time limits besides the run's that stand still while somebody is asked.

        Raises:
            ApprovalPending: nobody has decided yet.
            UsageError: the channel answered with arguments that do not fit.
        """
        from zeus_runtime.store.approvals import note_shown, put

        assert self._thread is not None, "a run begins before its calls"
        self._heard.add(request.place)
        shown = self._known(request.arguments)
        change = request.preview and redacted(request.preview, self._known)
        reason, schema = self._secrets.text(request.reason), self._known(request.schema)
        stored = replace(request, reason=reason, schema=schema, preview=change)
        written = await put(self._log, self._thread, self._run_id, stored, shown)
        pending = masked_pending(written, self._known)
        self._has_asked = True
        if pending.is_open and self._is_over(pending):
            pending = await self._timed_out(pending)
        if pending.is_open:
            shows = request.preview and masked(request.preview, self._told)
            pending = replace(pending, preview=shows)
            if self.channel is not None and change is not None:
                pending = replace(pending, shown=change.digest)
                await note_shown(self._log, pending)
            self._emit(ApprovalRequested(**_told(pending), expires_ms=pending.expires_ms))
            with all_standing_still((*self._clocks, *clocks)):
                pending = await self._answered(pending)
        decision = self._told_decision(pending, request)
        if decision is None:
            raise ApprovalPending([pending])
        return decision

    def _told_decision(self, pending: PendingApproval, request: ApprovalRequest) -> Decision | None:
        decision = pending.decision
        if decision is None:
            return None
        self._emit(
            ApprovalDecided(
                **_told(pending),
                decision=decision.answer,
                by=decision.by,
                changed=None if decision.arguments is None else dict(decision.arguments),
            )
        )
        told = replace(decision, arguments=self._unmasked(decision, request, pending))
        if told.answer == "approve":
            runs = request if told.arguments is None else replace(request, arguments=told.arguments)
            self._approved[request.place, runs.digest] = pending.shown, request.arguments
        return told

    @property
    def clocks(self) -> Sequence[Clock]:
        """The time limits of the run and of all that it works for, which stand still while somebody is asked."""
        return self._clocks

    @contextmanager
    def watching(self, clock: Clock) -> Iterator[None]:
        """While inside, ``clock`` is one of them: thinking is not the run's time."""
        around, self._clocks = self._clocks, (*self._clocks, clock)
        try:
            yield
        finally:
            self._clocks = around

    @property
    def _log(self) -> ThreadLog:
        assert self._given_log is not None, "nobody is asked in a simulation"
        return self._given_log

    async def _answered(self, pending: PendingApproval) -> PendingApproval:
        from zeus_runtime.store.approvals import allow, settle

        if self.channel is None:
            return pending
        left_seconds = None
        if pending.expires_ms is not None:
            left_seconds = max(0.0, (pending.expires_ms - self._log.now_ms()) / 1000)
        try:
            async with asyncio.timeout(left_seconds):
                decision = await self.channel.ask(pending)
        except TimeoutError:
            if not self._is_over(pending):
                raise
            return await self._timed_out(pending)
        if decision is None:
            return pending
        if problem := pending.problem_with(decision):
            raise UsageError(f"{pending.id} cannot be approved so: {problem}")
        settled = await settle(self._log, pending, masked_decision(decision, self._secrets))
        if settled.decision == decision and decision.always and pending.may_remember:
            await allow(self._log, self.user, pending.tool)
        return settled

    async def _timed_out(self, pending: PendingApproval) -> PendingApproval:
        from zeus_runtime.store.approvals import settle

        return await settle(self._log, pending, Decision(pending.on_timeout, by="timeout"))

    def _is_over(self, pending: PendingApproval) -> bool:
        return pending.expires_ms is not None and pending.expires_ms <= self._log.now_ms()

    def _unmasked(
        self, decision: Decision, request: ApprovalRequest, pending: PendingApproval
    ) -> dict[str, JSON] | None:
        """Changed arguments as they run: one that was left masked is the one that was hidden, and a text of the schema
        that was shown masked, such as a choice, is that text."""
        if decision.arguments is None:
            return None
        choices = {shown: each for each in _texts(request.schema) if (shown := self._known(each)) != each}
        kept = {
            name
            for name, value in decision.arguments.items()
            if name in request.arguments and value == pending.arguments.get(name)
        }
        return {
            choices.get(name, name): request.arguments[name] if name in kept else _chosen(value, choices)
            for name, value in decision.arguments.items()
        }


def masked_pending(pending: PendingApproval, known: Callable[[Any], Any]) -> PendingApproval:
    """A stored question with known secrets masked, also one that was stored before they were known."""
    arguments, reason, schema = known([pending.arguments, pending.reason, pending.schema])
    return replace(pending, arguments=arguments, reason=reason, schema=schema)


def _texts(value: JSON) -> Iterator[str]:
    """Every text in a JSON value, keys too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield key
            yield from _texts(each)
    elif isinstance(value, Sequence):
        for each in value:
            yield from _texts(each)


def _chosen(value: JSON, choices: Mapping[str, str]) -> JSON:
    """An answer with the choices meant, also those in a list."""
    if isinstance(value, list):
        return [_chosen(each, choices) for each in value]
    return choices.get(value, value) if isinstance(value, str) else value


def masked_decision(decision: Decision, secrets: Redactor) -> Decision:
    """A decision with known secrets masked in the arguments and words that somebody gave."""
    return replace(
        decision,
        arguments=secrets.masked(decision.arguments),
        reason=secrets.text(decision.reason),
        instruction=secrets.text(decision.instruction),
    )


def _outdated(tool: str) -> ToolResult:
    """What the model reads of a call whose effect is not what the user saw."""
    return ToolResult(
        f"This call of {tool} was not run: the file changed after the user saw what the call would do. Read the file"
        " again and repeat the call if it is still needed.",
        is_error=True,
    )


def _told(pending: PendingApproval) -> dict[str, Any]:
    return {
        "id": pending.id,
        "session": pending.session,
        "call_id": pending.call_id,
        "tool_name": pending.tool,
        "parameters": dict(pending.arguments),
        "reason": pending.reason,
    }


class CallApprovals:
    """A ``ApprovalBroker`` for a tool that asks in the middle of a call: the call's time limit stands still too.

    Args:
        broker: of the run.
        clock: of the call.
    """

    def __init__(self, broker: ApprovalBroker, clock: Clock) -> None:
        self._broker = broker
        self._clock = clock

    async def ask(self, request: ApprovalRequest) -> Decision:
        return await self._broker.ask(request, clocks=(self._clock,))

    async def is_allowed(self, tool: str) -> bool:
        return await self._broker.is_allowed(tool)

    async def mode(self, modes: AskModes) -> AskMode:
        return await self._broker.mode(modes)

    async def settled(self, request: ApprovalRequest, *, waits_on: bool = False) -> Decision | None:
        return await self._broker.settled(request, waits_on=waits_on)

    def judged_by(self, judge: Judge) -> None:
        self._broker.judged_by(judge)
