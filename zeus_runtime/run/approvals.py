"""Approval requests of a run: stored before the user sees them, so they can be decided now or after a resume."""

from __future__ import annotations

import asyncio
import json
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from zeus_runtime.command_lines import zeus_command
from zeus_runtime.config.secrets.masking import Redactor
from zeus_runtime.errors import UsageError, ZeusError
from zeus_runtime.events import ApprovalDecided, ApprovalRequested, Event, Notice
from zeus_runtime.strict_json import texts_of
from zeus_runtime.tools.approval import ApprovalPending, Decision, required_decision, setting_digest
from zeus_runtime.tools.changed_arguments import as_meant, is_same
from zeus_runtime.tools.dispatch import fitted_arguments
from zeus_runtime.tools.gate import AccessAsked
from zeus_runtime.tools.pausable_timeout import all_standing_still
from zeus_runtime.tools.preview import MadeChanges, Preview, masked, preview_of, shows_place
from zeus_runtime.tools.question import caller_label, tool_label
from zeus_runtime.tools.tool import ToolResult
from zeus_runtime.tracing import TraceSpan

if TYPE_CHECKING:
    from zeus_runtime.store.former_decisions import AskedCall
    from zeus_runtime.store.thread_log import ThreadLog
    from zeus_runtime.store.threads import Thread
    from zeus_runtime.tools.approval import (
        ApprovalChannel,
        ApprovalRequest,
        AskMode,
        AskModes,
        Check,
        Judge,
        Listing,
        PendingApproval,
        Refuses,
    )
    from zeus_runtime.tools.pausable_timeout import Clock
    from zeus_runtime.tools.tool import JSON, Tool, ToolCall
    from zeus_runtime.tools.workspace import WorkspaceFiles


class ApprovalNeededError(ZeusError):
    """A run needs the user's decision before it can continue (exit 7); ``pending`` lists the open requests."""

    exit_code = 7
    code = "approval_needed"

    def __init__(self, session: str, pending: Sequence[PendingApproval]) -> None:
        calls = ", ".join(f"{caller_label(each.agent, each.tool)} ({each.id})" for each in pending)
        super().__init__(
            f"{len(pending)} {'call waits' if len(pending) == 1 else 'calls wait'} for approval: {calls}",
            remedy=f"Decide and resume with `{zeus_command('resume', session, '--decide', 'ID=approve')}` or"
            " `--decide ID=reject:REASON`,"
            " in a service with `zeus --remote URL approvals decide ID approve`. To run tools without asking, pass"
            " `--yes` for one run, or write `approvals: run_everything` in the config.",
        )
        self.pending = tuple(pending)


_WITHIN: Final[ContextVar[asyncio.Lock | None]] = ContextVar("within", default=None)
"""The lock for approved calls that the current approved call makes through its sub-agents.

The parent call holds the outer lock until its sub-agent ends, so a sub-agent that waited for that lock would deadlock.
"""


class Signing:
    """Runs the approved changes of a run and its sub-agents one after the other.

    Attributes:
        made: the changes made so far.
    """

    def __init__(self) -> None:
        self.made = MadeChanges()
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Inside the block no other approved change is compared or made, except by the call's own sub-agents."""
        # `_WITHIN` is set in the task of an approved call, and its sub-agents' tasks copy it.
        async with _WITHIN.get() or self._lock:
            token = _WITHIN.set(asyncio.Lock())
            try:
                yield
            finally:
                _WITHIN.reset(token)


class ApprovedCall(NamedTuple):
    """What a person was shown of an approved call, as ``PendingApproval`` has it."""

    shown: str | None
    arguments: Mapping[str, JSON]
    workspace: str = ""
    id: str = ""


class ApprovalBroker:
    """The approvals of one run (``Approvals``).

    Args:
        log: the log that stores requests; None for a simulation, in which the user is not asked.
        user: the user whose allowlist and approval mode apply.
        workspace: SHA-256 of the place of the agent's workspace.
        known: the secrets that are masked in the content of an approval.
        secrets: masks arguments that the user changed, as it masks arguments that a model writes.
        emit: receives the events.
        channel: asks the user during the run; None if no user can be asked now.
        person: the person that the parent run asks.
        signing: the parent run's.
        clocks: the time limits of the parent runs and calls.
        above: the parent run's.

    Attributes:
        person: the person who gets the requests: the same object for a run and its sub-agents.
        signing: makes approved changes one by one: the same object for a run and its sub-agents.
    """

    def __init__(
        self,
        log: ThreadLog | None = None,
        *,
        user: str = "",
        workspace: str = "",
        known: Redactor | None = None,
        secrets: Redactor | None = None,
        emit: Callable[[Event], None] = lambda _event: None,
        channel: ApprovalChannel | None = None,
        person: object = None,
        signing: Signing | None = None,
        clocks: Sequence[Clock] = (),
        above: ApprovalBroker | None = None,
    ) -> None:
        self._above = above
        self._given_log = log
        self.user = user
        self._workspace = workspace
        self._told = known or Redactor()
        self._known = self._told.masked
        self._secrets = secrets or Redactor()
        self._emit = emit
        self.channel = channel
        self.person: object = person or channel or self
        self.signing = signing or Signing()
        self._clocks = tuple(clocks)
        self._judges: list[Judge] = []
        self._refuses: list[tuple[Refuses, Refuses]] = []
        self._checks: list[Check] = []
        self._thread: Thread | None = None
        self._run_id = ""
        self._has_asked = False
        self._former_places: Collection[str] | None = None
        self._is_resumed = True
        self._heard: set[str] = set()
        self._asked_at: set[str] = set()
        self._approved: dict[tuple[str, str], ApprovedCall] = {}
        self._made: set[tuple[str, str]] = set()
        # A middleware may make calls at once at one place: they are asked about, and an approval is used, in turn.
        self._in_turn: defaultdict[object, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._begun: set[str] = set()
        self._first_made: dict[str, str] = {}
        self._refused_mode: str | None = None
        self._made_calls: dict[str, tuple[ToolCall, Callable[[str], Tool | None]]] = {}

    def begin(self, thread: Thread, run_id: str, *, is_new: bool = False) -> None:
        """Set the session and the run, before the first request.

        Args:
            is_new: whether the run begins now, so that it has asked nothing yet.
        """
        self._thread, self._run_id = thread, run_id
        self._is_resumed = not is_new
        if is_new:
            self._former_places = ()

    @contextmanager
    def making(self, call: ToolCall, find: Callable[[str], Tool | None]) -> Iterator[None]:
        """Know a call as the model wrote it, for the requests about it inside the block.

        A rejection holds for the same call at another place too, where its tool may take it for other arguments.

        Args:
            find: the present tool of a name.
        """
        self._made_calls[str(call.place)] = call, find
        try:
            yield
        finally:
            del self._made_calls[str(call.place)]

    def _as_written(self, request: ApprovalRequest) -> ApprovalRequest:
        """The request with what the model wrote, unless a middleware or a person made another call of it."""
        place = _place_of_call(request)
        if place not in self._made_calls:
            return request
        call, find = self._made_calls[place]
        tool = find(call.name) if call.name == request.tool else None
        # Most tools take just what the model wrote.
        if is_same(call.arguments, request.arguments) or tool is None:
            return request
        is_made_of_it = is_same(fitted_arguments(tool, call), request.arguments)
        return replace(request, written=call.arguments) if is_made_of_it else request

    def _note_made(self, request: ApprovalRequest) -> None:
        """Note a call that would run now or was rejected: a middleware may make another one beside it.

        Not each look at a call: the middlewares may make other arguments of one call on its way.
        """
        self._first_made.setdefault(_place_of_call(request), request.digest)

    async def _asked_call(self, request: ApprovalRequest) -> AskedCall:
        from zeus_runtime.store.former_decisions import AskedCall

        assert self._thread is not None, "a run begins before its calls"
        first = self._first_made.get(_place_of_call(request), request.digest)
        return AskedCall(
            self._thread,
            self._run_id,
            self._as_written(request),
            self._known,
            is_resumed=await self._was_asked_at(request.place),
            is_beside=first != request.digest,
        )

    def judged_by(self, judge: Judge) -> None:
        """Add ``judge``, which says of each call whether it needs approval."""
        self._judges.append(judge)

    def refused_by(self, refuses: Refuses, *, of_person: Refuses | None = None) -> None:
        """Add ``refuses``, which judges sub-agents' calls, and ``of_person``, which judges what a person changed."""
        self._refuses.append((refuses, of_person or refuses))

    def checked_by(self, check: Check) -> None:
        """Add ``check``, which judges the arguments that finally run."""
        self._checks.append(check)

    async def checked(self, call: ToolCall, arguments: Mapping[str, JSON]) -> str | None:
        """Why one of the checks refuses a call that would run now with these arguments; None if none does."""
        for check in self._checks:
            if why := await check(replace(call, arguments=arguments)):
                return why
        return None

    def refusal(
        self, tool: Tool, arguments: Mapping[str, JSON], files: WorkspaceFiles, *, own: bool
    ) -> str | None:
        """Why the rules of the runs above this one refuse a call; None if they do not.

        Args:
            files: the workspace of the run that calls, in which the call's paths are meant.
            own: with the rules of this run about arguments that a person wrote below its middlewares.
        """
        for _, of_person in self._refuses if own else ():
            if why := of_person(tool, arguments, files):
                return why
        return None if self._above is None else self._above._refusal(tool, arguments, files)

    def _refusal(self, tool: Tool, arguments: Mapping[str, JSON], files: WorkspaceFiles) -> str | None:
        for refuses, _ in self._refuses:
            if why := refuses(tool, arguments, files):
                return why
        return self.refusal(tool, arguments, files, own=False)

    async def objection(
        self, tool: Tool, call: ToolCall, arguments: Mapping[str, JSON], files: WorkspaceFiles
    ) -> str | None:
        """Why a call that is running may not go on as if it had these arguments; None if it may.

        No person is asked: who was asked about the call has seen other arguments.
        """
        if why := self._refusal(tool, arguments, files):
            return f"it is not allowed: {why}"
        if await self.requires(replace(call, arguments=arguments)):
            return "it needs an approval of its own"
        return await self.checked(call, arguments)

    async def requires(self, call: ToolCall) -> bool:
        """Whether any of the judges says that the call needs approval."""
        for judge in self._judges:
            if await judge(call):
                return True
        return False

    async def listing(self, tool: Tool) -> Listing:
        """What the user's stored allowlist says of the tool with its present setting in this workspace."""
        from zeus_runtime.store.allowlist import listing

        return await listing(self._log, self.user, tool.name, setting_digest(tool.setting, self._workspace))

    async def mode(self, modes: AskModes) -> AskMode:
        """How often the user is asked; a stored choice that the config does not allow gives one notice per run."""
        from zeus_runtime.store.allowlist import stored_mode

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
        """The decision on a call that needs no approval under the current config, if the run has asked about it.

        Args:
            waits_on: whether a call at whose place the run has asked is asked about again, unless it is decided.
        """
        from zeus_runtime.store.approvals import close, is_asked

        assert self._thread is not None, "a run begins before its calls"
        if not await self._asked_before():
            return None
        if waits_on and await is_asked(self._log, self._thread, self._run_id, request.place):
            # Also if the server changed what its tool takes, and so the arguments: nobody has decided about these.
            return await self.ask(request)
        pending, has_asked = await close(self._log, await self._asked_call(request))
        if has_asked:
            self._asked_at.add(request.place)
        return None if pending is None else self._told_decision(pending, request, former=True)

    async def held(self, tool: Tool, request: ApprovalRequest) -> Decision | None:
        """The decision on a call of ``tool`` that no middleware of this config asks about.

        The run may have begun under a config whose middleware asked.

        Raises:
            ApprovalPending: the request from then is still undecided, or the call that it approved was interrupted, or
                a person changed the call's arguments when its tool had another setting.
        """
        if self._given_log is None or self._thread is None or request.place in self._heard:
            return None
        former = await self._changed(request)
        # A middleware of this config asks by itself; this is for a run that began under another one. What was decided
        # then holds also where the middleware looks for no decision.
        if self._judges and former is None:
            is_decided = any(place == request.place for place, _ in self._approved)
            return None if is_decided else await self.settled(request)
        former = former or await self._open(request)
        if former is not None or await self._was_interrupted(request):
            change = await preview_of(tool, request.arguments, self._secrets, self._thread.session)
            again = replace(request, preview=change)
            if former is not None:
                # It is a new request if the tool has another setting now, and no rule judges that one.
                again = replace(again, reason=former.reason, needs_person=former.needs_person)
            return await self.ask(again, is_judged=False)
        return await self.settled(request)

    async def rejected(self, request: ApprovalRequest) -> PendingApproval | None:
        """The rejection of a call that would run now, or of a file that it reached, if the run was resumed since."""
        from zeus_runtime.store.approvals import rejected_at

        self._note_made(request)
        if self._thread is None or not await self._was_asked_at(request.place):
            return None
        # Of a call that was approved in this process, only a rejection with the same arguments counts.
        call = replace(await self._asked_call(request), is_resumed=not self.has_approved(request))
        found = await rejected_at(self._log, call)
        if found is None:
            return None
        pending = masked_pending(found, self._known)
        self._told_decision(pending, request, former=True)
        return pending

    async def _changed(self, request: ApprovalRequest) -> PendingApproval | None:
        """The approval by which a person changed this call before a resume, if it does not hold for it now."""
        from zeus_runtime.store.approvals import changed_at

        assert self._thread is not None, "a run begins before its calls"
        if self.has_approved(request) or not await self._was_asked_at(request.place):
            return None
        return await changed_at(self._log, await self._asked_call(request))

    async def _was_asked_at(self, place: str) -> bool:
        """Whether the run, before it was resumed, asked about the call at this place, or while that call ran."""
        return self._given_log is not None and re.split("[.:]", place)[0] in await self._asking_places()

    def has_approved(self, request: ApprovalRequest) -> bool:
        """Whether this call, with exactly these arguments, was approved in this process."""
        return bool(self._approved) and (request.place, request.digest) in self._approved

    def as_shown(self, request: ApprovalRequest) -> ApprovalRequest:
        """An approved call with the arguments that its user was shown, who may have changed them."""
        return replace(request, arguments=self._approved[request.place, request.digest].arguments)

    async def signed(
        self, tool: Tool, request: ApprovalRequest, run: Callable[[], Awaitable[ToolResult]]
    ) -> ToolResult:
        """Run an approved call, unless it would now do something else than the user saw.

        In that case the result tells the model that the call was not run. One approval is for one call: a middleware
        that makes it again gets it run only if it failed. The comparison uses the call as it was shown,
        also where the user changed its arguments. Approved changes run one after the other, so that no change comes
        between the comparison and the call.
        """
        if not self.has_approved(request):
            # A middleware below the one that asked has changed the call.
            if any(place == request.place for place, _ in self._approved):
                return _unsigned(tool.name)
            if request.place in self._asked_at:
                await self._note_begun_unasked(request)
            return await run()
        approved = (request.place, request.digest)
        async with self._in_turn[approved]:
            # Before the comparison: the call's own change would look like one that came in between.
            if approved in self._made:
                return _made_already(tool.name)
            result = await self._run_signed(tool, request, run)
            if not result.is_error:
                self._made.add(approved)
            return result

    async def _run_signed(
        self, tool: Tool, request: ApprovalRequest, run: Callable[[], Awaitable[ToolResult]]
    ) -> ToolResult:
        shown, arguments, workspace, name = self._approved[request.place, request.digest]
        run = self._noted(tool, name, run)
        # Where no diff was shown, the arguments are what was approved, and they mean that workspace.
        if not shows_place(shown) and workspace not in ("", self._workspace):
            return _elsewhere(tool.name)
        if tool.preview is None:
            # A change was shown, and the tool that could make it again has no preview now.
            return _outdated(tool) if shown else await run()
        async with self.signing.alone():
            made = self.signing.made
            if shown != "" and not made.still(shown, await self._change(tool, arguments)):
                return _outdated(tool)
            # Before the call runs: afterwards the preview would compare the file with its own new content.
            change = await self._change(tool, request.arguments)
            result = await run()
            if change is not None and not result.is_error:
                made.note(change)
            return result

    async def _note_begun_unasked(self, request: ApprovalRequest) -> None:
        """Store the begin of a call that needs no approval now: its requests would say that it never began."""
        from zeus_runtime.store.interrupted_calls import note_begun_unasked

        assert self._thread is not None, "a run begins before its calls"
        here = (self._log, self._thread, self._run_id, request.place)
        await note_begun_unasked(*here, self._known(request.arguments))

    def _noted(
        self, tool: Tool, name: str, run: Callable[[], Awaitable[ToolResult]]
    ) -> Callable[[], Awaitable[ToolResult]]:
        """``run``, whose begin is stored before it, so that a resume after an interruption asks anew.

        Args:
            name: the approval's id.
        """
        if not name:
            return run

        async def noted() -> ToolResult:
            from zeus_runtime.store.interrupted_calls import note_begun

            assert self._thread is not None, "a run begins before its calls"
            if name not in self._begun:
                # A sub-agent's work continues where it stopped, and Zeus asks about its calls.
                await note_begun(self._log, self._thread, name, holds=tool.starts_agents)
                self._begun.add(name)
            try:
                return await run()
            except (ApprovalPending, AccessAsked):
                # It stopped by itself: the approval also holds for the rest of the call, after the question.
                await note_begun(self._log, self._thread, name, holds=True)
                self._begun.discard(name)
                raise

        return noted

    async def _change(self, tool: Tool, arguments: Mapping[str, JSON]) -> Preview | None:
        session = "" if self._thread is None else self._thread.session
        change = await preview_of(tool, arguments, self._secrets, session)
        return change and masked(change, self._told)

    async def _asked_before(self) -> bool:
        """Whether this run has asked anything yet, or given work to a sub-agent, also before a resume."""
        return self._has_asked or bool(await self._asking_places())

    async def _asking_places(self) -> Collection[str]:
        """The places of the calls about which, or while which, this run asked before a resume."""
        from zeus_runtime.store.approvals import asking_places

        assert self._thread is not None, "a run begins before its calls"
        # One query for a resumed run; a new run knows the answer without it.
        if self._former_places is None:
            self._former_places = await asking_places(self._log, self._thread, self._run_id)
        return self._former_places

    async def _open(self, request: ApprovalRequest) -> PendingApproval | None:
        """The undecided request of this run about this call, if any, also from when its tool had another setting."""
        from zeus_runtime.store.approvals import open_approvals

        assert self._thread is not None, "a run begins before its calls"
        if not await self._asked_before():
            return None
        here = (self._thread.session, self._run_id, request.place, request.tool)
        waiting = await open_approvals(self._log, self._thread.session)
        return next(
            (each for each in waiting if (each.session, each.run_id, each.place, each.tool) == here), None
        )

    async def _was_interrupted(self, request: ApprovalRequest) -> bool:
        """Whether this run began the call under an approval before it was resumed."""
        from zeus_runtime.store.interrupted_calls import was_interrupted

        assert self._thread is not None, "a run begins before its calls"
        if not await self._asked_before():
            return False
        return await was_interrupted(self._log, self._thread, self._run_id, request.place)

    async def begun_before(
        self, place: int, arguments: Mapping[str, JSON], ran: Mapping[str, JSON] | None
    ) -> str:
        """A sentence for the model, if this run began the call at ``place`` before it was resumed; else empty.

        A call that was refused now does not go on, and its questions are withdrawn.

        Args:
            arguments: those of the model, beside which others are named with which the call was begun.
            ran: those with which it ran now, beside which only others count; None if it was refused.
        """
        from zeus_runtime.store.approvals import withdraw_during
        from zeus_runtime.store.interrupted_calls import begun_before

        if not self._is_resumed or self._given_log is None or self._thread is None:
            return ""
        here = (self._log, self._thread, self._run_id, place)
        if not await self._asked_before() or (stored := await begun_before(*here)) is None:
            return ""
        # Masked before they are compared: a secret may be known only since they were stored.
        found, own = [self._known(each) for each in stored], self._known(arguments)
        if ran is None:
            await withdraw_during(*here)
        else:
            own = self._known(ran)
            found = [each for each in found if not is_same(each, own)]
            if not found:
                return ""
        shown = " and ".join(json.dumps(each, ensure_ascii=False, default=str) for each in found)
        how = "" if all(is_same(each, own) for each in found) else f" with the arguments {shown}"
        return f"This call was begun before{how} and did not finish: whether it took effect is unknown."

    async def ask(
        self, request: ApprovalRequest, *, clocks: Sequence[Clock] = (), is_judged: bool = True
    ) -> Decision:
        """Ask the user and return the decision on ``request``.

        Args:
            clocks: further time limits that pause while the user is asked.
            is_judged: whether the present rules judged it; if not, an open request keeps its stored judgement.

        Raises:
            ApprovalPending: the request is still undecided.
            UsageError: the channel answered with arguments that do not fit.
        """
        # The second question at a place withdraws the first, unless that is decided.
        async with self._in_turn[request.place]:
            return await self._asked(request, clocks, is_judged=is_judged)

    async def _asked(self, request: ApprovalRequest, clocks: Sequence[Clock], *, is_judged: bool) -> Decision:
        from zeus_runtime.store.approvals import note_shown, put

        assert self._thread is not None, "a run begins before its calls"
        # `_dispatch` comes to the same place later, and `held` must not ask again there.
        self._heard.add(request.place)
        self._asked_at.add(request.place)
        shown = self._known(request.arguments)
        change = request.preview and masked(request.preview, self._told)
        reason, schema = self._secrets.text(request.reason), self._known(request.schema)
        facts = tuple(map(self._secrets.text, request.facts))
        call = await self._asked_call(request)
        stored = replace(call.request, reason=reason, schema=schema, preview=change, facts=facts)
        if request.needs_person:
            stored = replace(stored, may_remember=False, on_timeout="reject")
        # Stored before anyone is asked: a process that is killed while the user thinks loses no question.
        written = await put(
            self._log,
            replace(call, request=stored),
            shown,
            told=self._told_arguments(request, shown),
            workspace=self._workspace,
            is_judged=is_judged,
        )
        pending = masked_pending(written, self._known)
        self._has_asked = True
        # The request may be from before a resume, and its time may have passed meanwhile.
        is_open = pending.is_open
        if is_open and self._is_over(pending):
            pending = await self._timed_out(pending)
        if pending.is_open:
            pending = replace(pending, preview=change)
            # Stored before the request is shown: another process may show a later change, and a decision is bound to
            # the change that its user saw.
            if self.channel is not None and change is not None:
                pending = replace(pending, shown=change.digest)
                await note_shown(self._log, pending)
            self._emit(
                ApprovalRequested(
                    **_told(pending),
                    expires_ms=pending.expires_ms,
                    interrupted=pending.interrupted,
                    subagent=pending.agent,
                    begun_with=pending.begun_with,
                )
            )
            about = {"gen_ai.tool.name": request.tool, "gen_ai.tool.call.id": self._known(request.call_id)}
            with TraceSpan("wait for approval", about) as span, all_standing_still((*self._clocks, *clocks)):
                pending = await self._answered(pending)
                if pending.decision is not None:
                    span.note({"zeus.approval": pending.decision.answer})
        decision = self._told_decision(pending, request, former=not is_open)
        if decision is None:
            raise ApprovalPending([pending])
        return decision

    def _told_arguments(
        self, request: ApprovalRequest, shown: Mapping[str, JSON]
    ) -> Mapping[str, JSON] | None:
        """``PendingApproval.told`` of a request whose masked arguments are ``shown``."""
        preview = request.preview
        if preview is not None and not preview.changes:
            return None
        # A tool with a diff may put the secret in the place of its placeholder: the diff tells what would be written.
        diffed = () if preview is None else preview.stands_for
        told = {
            name: shown[name] if name in diffed else value
            for name, value in self._told.told(request.arguments).items()
        }
        return None if told == shown else told

    def _told_decision(
        self, pending: PendingApproval, request: ApprovalRequest, *, former: bool
    ) -> Decision | None:
        decision = pending.decision
        if decision is None:
            return None
        self._emit(
            ApprovalDecided(
                **_told(pending),
                decision=decision.answer,
                by=decision.by,
                changed=None if decision.arguments is None else dict(decision.arguments),
                former=former,
            )
        )
        if decision.answer == "reject":
            self._note_made(request)
        told = replace(decision, arguments=self._unmasked(decision, request, pending))
        if told.answer == "approve":
            runs = request if told.arguments is None else replace(request, arguments=told.arguments)
            self._approved[request.place, runs.digest] = ApprovedCall(
                pending.shown, request.arguments, pending.workspace, pending.id
            )
        return told

    @property
    def clocks(self) -> Sequence[Clock]:
        """The time limits of the run and of its parent runs, all of which pause while the user is asked."""
        return self._clocks

    @contextmanager
    def watching(self, clock: Clock) -> Iterator[None]:
        """Inside the block ``clock`` is one of these time limits: the user's thinking is not the run's time."""
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
        from zeus_runtime.store.allowlist import allow
        from zeus_runtime.store.approvals import settle

        if self.channel is None:
            return pending
        left_seconds = None
        if pending.expires_ms is not None:
            left_seconds = max(0.0, (pending.expires_ms - self._log.now_ms()) / 1000)
        try:
            # The time counts from the first question, so a resume does not begin it anew.
            async with asyncio.timeout(left_seconds):
                decision = await self.channel.ask(pending)
        except TimeoutError:
            # The TimeoutError may be the channel's, for example that of a network.
            if not self._is_over(pending):
                raise
            return await self._timed_out(pending)
        if decision is None:
            return pending
        decision = pending.counting(required_decision(decision))
        if decision.answer == "approve" and decision.arguments is not None and pending.schema is None:
            # The question about a file comes in the middle of a call, which runs with the arguments that it has.
            told = (
                f"{tool_label(pending.tool)} ({pending.id}) stays open: its arguments cannot be changed here."
            )
            self._emit(Notice("arguments_fixed", f"{told} Approve or reject it as it is."))
            return pending
        if problem := pending.problem_with(decision):
            raise UsageError(f"{pending.id} cannot be decided so: {problem}")
        stored = masked_decision(pending.fitting(decision), self._secrets)
        settled = await settle(self._log, pending, stored)
        # The decision that the database had first counts.
        if settled.decision != stored:
            name = f"{tool_label(pending.tool)} ({pending.id})"
            self._emit(
                Notice(
                    "decided_elsewhere", f"{name} was decided elsewhere first: this answer does not count."
                )
            )
        elif stored.always:
            # After the decision is stored: an allowlist must not have an entry for an answer that did not count.
            await allow(self._log, self.user, pending.tool, pending.remembered_as)
        return settled

    async def _timed_out(self, pending: PendingApproval) -> PendingApproval:
        from zeus_runtime.store.approvals import settle

        return await settle(self._log, pending, Decision(pending.on_timeout, by="timeout"))

    def _is_over(self, pending: PendingApproval) -> bool:
        return pending.expires_ms is not None and pending.expires_ms <= self._log.now_ms()

    def _unmasked(
        self, decision: Decision, request: ApprovalRequest, pending: PendingApproval
    ) -> dict[str, JSON] | None:
        """The changed arguments as they run."""
        if decision.arguments is None:
            return None
        # A tool that asks learns no secret but those of its own form.
        held = "" if pending.is_question else "\n".join(texts_of(request.arguments))
        return as_meant(
            decision.arguments,
            request.arguments,
            pending.arguments,
            self._told,
            schema=request.schema,
            held=held,
        )


def masked_pending(pending: PendingApproval, known: Callable[[Any], Any]) -> PendingApproval:
    """A stored request with the secrets masked that are known now, some of which may be newer than the request."""
    names = (
        "arguments",
        "reason",
        "schema",
        "told",
        "begun_with",
        "approved_with",
        "facts",
        "written",
        "call_id",
    )
    masked = known([getattr(pending, name) for name in names])
    return replace(pending, **dict(zip(names, masked, strict=True)))


def masked_decision(decision: Decision, secrets: Redactor) -> Decision:
    """A decision with known secrets masked in its arguments, reason and instruction."""
    return replace(
        decision,
        arguments=secrets.masked(decision.arguments),
        reason=secrets.text(decision.reason),
        instruction=secrets.text(decision.instruction),
    )


def _unsigned(tool: str) -> ToolResult:
    """The result for a call that is not the one that the user approved."""
    return ToolResult(
        f"This call of {tool} was not run: its arguments are not those that the user approved.", is_error=True
    )


def _made_already(tool: str) -> ToolResult:
    """The result for a call that a middleware makes again after it has run."""
    return ToolResult(
        f"This call of {tool} was not run again: the user approved it once, and it has run.", is_error=True
    )


def _elsewhere(tool: str) -> ToolResult:
    """The result for a call that was approved in another workspace, where its words mean other files."""
    return ToolResult(
        f"This call of {tool} was not run: the user approved it in another workspace. Repeat the call if it is needed"
        " in this one.",
        is_error=True,
    )


def _outdated(tool: Tool) -> ToolResult:
    """The result that tells the model that the file or memory changed after the user saw the call."""
    noun = "memory" if tool.category == "memory" else "file"
    return ToolResult(
        f"This call of {tool.name} was not run: the {noun} changed after the user saw what the call would do. Read the"
        f" {noun} again and repeat the call if it is still needed.",
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
        "kind": pending.kind,
    }


class CallApprovals:
    """An ``ApprovalBroker`` for a tool that asks during its call: the call's time limit pauses too.

    Args:
        broker: the run's.
        clock: the call's time limit.
    """

    def __init__(self, broker: ApprovalBroker, clock: Clock) -> None:
        self._broker = broker
        self._clock = clock

    async def ask(self, request: ApprovalRequest) -> Decision:
        return await self._broker.ask(request, clocks=(self._clock,))

    async def listing(self, tool: Tool) -> Listing:
        return await self._broker.listing(tool)

    async def mode(self, modes: AskModes) -> AskMode:
        return await self._broker.mode(modes)

    async def settled(self, request: ApprovalRequest, *, waits_on: bool = False) -> Decision | None:
        return await self._broker.settled(request, waits_on=waits_on)

    def judged_by(self, judge: Judge) -> None:
        self._broker.judged_by(judge)

    def refused_by(self, refuses: Refuses, *, of_person: Refuses | None = None) -> None:
        self._broker.refused_by(refuses, of_person=of_person)

    def checked_by(self, check: Check) -> None:
        self._broker.checked_by(check)


def _place_of_call(request: ApprovalRequest) -> str:
    """The place of the call that a request is about; a file that the call reaches has a part of its own behind it."""
    return request.place.partition(":")[0]
