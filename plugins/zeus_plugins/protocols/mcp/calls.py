"""A call of an agent: its turn, its progress, and the decisions that it needs from the client's user."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

from mcp.shared.exceptions import MCPError
from mcp.types import (
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequests,
    InputRequiredResult,
    TextContent,
    Tool,
)

from zeus_runtime.plugin import printable
from zeus_runtime.plugin.approval import PendingApproval, decision_of, question_and_form
from zeus_runtime.plugin.protocol import UsageError, visible_text

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.types import CallToolRequestParams

    from zeus_runtime.plugin.protocol import AgentInfo, ProtocolCaller, ServedEvent, StoredTurn

STATELESS_FROM: Final = "2026-07-28"
"""From this revision of the protocol on, a server asks by its result, and the client calls again."""


def tool_of(agent: AgentInfo) -> Tool:
    """An agent as a tool."""
    about = agent.description or f"The agent {agent.name!r}."
    return Tool(
        name=agent.name,
        description=f"{about}\nGive it a task; it works with tools of its own and answers when it is done.",
        input_schema={
            "type": "object",
            "properties": {
                "prompt": {"type": "string", "description": "The task or question."},
                "session": {
                    "type": ["string", "null"],
                    "description": "A session to continue; a new one without.",
                    "default": None,
                },
            },
            "required": ["prompt"],
        },
    )


class AgentCall:
    """One request to call an agent.

    Args:
        caller: who calls.
        ctx: the request's context.

    Attributes:
        turn: the turn that works for it; None before it begins.
    """

    def __init__(self, caller: ProtocolCaller, ctx: ServerRequestContext[Any, Any]) -> None:
        self._caller = caller
        self._ctx = ctx
        self._told = 0
        self._former: Mapping[str, PendingApproval] = {}
        self.turn: StoredTurn | None = None

    @property
    def is_stateless(self) -> bool:
        """Whether the request stands alone, without a session of the protocol."""
        return self._ctx.protocol_version >= STATELESS_FROM

    async def result(self, params: CallToolRequestParams) -> CallToolResult | InputRequiredResult:
        """The agent's answer, or what it needs from the client's user.

        Raises:
            ZeusError: the arguments are not valid, or the caller may not do that.
        """
        if params.request_state is None:
            self.turn, after = await self._begun(params.name, params.arguments or {})
        else:
            after = await self._continued(params)
        assert self.turn is not None
        while True:
            last = await self._followed(self.turn, after)
            ending = last.event if last is not None else (await self._caller.turn(self.turn.run)).ending
            assert ending is not None, "the events of a turn end with it"
            if last is None or ending.get("code") != "approval_needed":
                return _ended(ending)
            session = self.turn.session
            waiting = await self._caller.waiting(session)
            if not self._can_ask or self._is_dismissed(params, waiting):
                return _ended(ending, waiting)
            if not (waiting := await self._caller.shown(session)):
                return _ended(ending)
            if self.is_stateless:
                return _asked(waiting, self.turn.run, last.number, self._former)
            if left := await self._left_by(session, waiting):
                return _ended(ending, left)
            after = last.number

    def _is_dismissed(self, params: CallToolRequestParams, waiting: Sequence[PendingApproval]) -> bool:
        """Whether the client's user was asked about a call and made no decision."""
        asked = params.input_responses or {}
        return any(each.id in asked for each in waiting)

    @property
    def _can_ask(self) -> bool:
        capabilities = self._ctx.session.client_capabilities
        return capabilities is not None and capabilities.elicitation is not None

    async def _begun(self, agent: str, arguments: Mapping[str, Any]) -> tuple[StoredTurn, int]:
        prompt, session = arguments.get("prompt"), arguments.get("session") or None
        if not isinstance(prompt, str) or not isinstance(session, str | None):
            raise UsageError("`prompt` and `session` are texts", remedy="Call the tool with a prompt.")
        if unknown := sorted(set(arguments) - {"prompt", "session"}):
            raise UsageError(f"the tool has no argument {unknown[0]!r}", remedy="It has prompt and session.")
        if session is not None and await self._caller.agent_of(session) != agent:
            raise UsageError(f"there is no session {session!r} of the agent {agent!r}")
        # A refused prompt leaves no empty session behind, and withdraws no call.
        self._caller.check_turn(agent, prompt)
        if session is None:
            session = await self._caller.begin_session(agent, title=prompt)
        # Before the turn begins, so that its first event comes after this number.
        after = await self._caller.last_number(session)
        turns = await self._caller.turns(session)
        if turns and turns[-1].state == "waiting":
            # As on a terminal: whoever says something else withdraws the call.
            await self._caller.cancel(turns[-1].run)
        return await self._caller.begin_turn(session, prompt), after

    async def _continued(self, params: CallToolRequestParams) -> int:
        run, after, asked = _read(params.request_state or "")
        self._former = asked
        self.turn = await self._caller.turn(run)
        given = params.input_responses or {}
        if unknown := [name for name in given if name not in asked]:
            raise UsageError(f"the state of the request asks about no call with the id {unknown[0]!r}")
        answers = {
            name: decision_of(asked[name], answer.action, answer.content)
            for name, answer in given.items()
            if isinstance(answer, ElicitResult)
        }
        decisions = {name: each for name, each in answers.items() if each is not None}
        if decisions:
            # A call may have been shown elsewhere since, with another change.
            await self._caller.decide(decisions, seen=asked.values())
        still_waits = any(each.id in asked for each in await self._caller.waiting(self.turn.session))
        # A turn that still waits has no further event to tell.
        return after - 1 if still_waits else after

    async def _followed(self, turn: StoredTurn, after: int) -> ServedEvent | None:
        """Tell the progress of a turn until it ends or waits; the event with which it does, if there is one."""
        last: ServedEvent | None = None
        async with aclosing(self._caller.events(turn.run, after)) as events:
            async for event in events:
                if event is None:
                    continue
                last = event if event.ends else None
                if event.event["type"] in ("tool_call", "tool_progress"):
                    self._told += 1
                    message = event.event.get("message", "")
                    name = event.event["tool_name"]
                    told = printable(f"{name}: {message}" if message else name)
                    await self._ctx.session.report_progress(self._told, None, told)
        return last

    async def _left_by(self, session: str, waiting: Sequence[PendingApproval]) -> Sequence[PendingApproval]:
        """Ask the client's user about each call, and return the calls that still wait."""
        request = self._ctx.request_id

        async def ask(pending: PendingApproval) -> None:
            question, form = question_and_form(pending)
            try:
                answer = await self._ctx.session.elicit_form(question, dict(form), request)
            except MCPError:  # the connection has no way back to the client
                return
            decision = decision_of(pending, answer.action, answer.content)
            if decision is not None:
                # Alone, since the next answer may come late or never.
                await self._caller.decide({pending.id: decision}, seen=[pending])

        # Each question gets its answer, also beside one whose answer is refused.
        for failed in await asyncio.gather(*map(ask, waiting), return_exceptions=True):
            if failed is not None:
                raise failed
        names = {each.id for each in waiting}
        return [each for each in await self._caller.waiting(session) if each.id in names]


def _asked(
    waiting: Sequence[PendingApproval], run: str, after: int, former: Mapping[str, PendingApproval]
) -> InputRequiredResult:
    """What the calls that wait require of the client's user.

    Args:
        former: the calls that the client's user was asked about before in this turn: of a decided one, which may not
            run before the others are decided, another answer is an error.
    """
    requests: InputRequests = {}
    for each in waiting:
        question, form = question_and_form(each)
        params = ElicitRequestFormParams(message=question, requested_schema=dict(form))
        requests[each.id] = ElicitRequest(params=params)
    asked = {**former, **{each.id: each for each in waiting}}
    state = [run, after, {name: [each.shown, each.is_question] for name, each in asked.items()}]
    return InputRequiredResult(input_requests=requests, request_state=json.dumps(state))


def _read(state: str) -> tuple[str, int, Mapping[str, PendingApproval]]:
    """The run, its last event that was told, and the calls as the client's user saw them, from a request's state."""
    try:
        given = json.loads(state)
    except (ValueError, RecursionError):
        given = None
    match given:
        case [str(run), int(after), dict(asked)] if after >= 0 and all(map(_is_asked, asked.values())):
            return run, after, {name: _as_asked(run, name, *each) for name, each in asked.items()}
    raise UsageError("the state of the request is not one that this server gave")


def _is_asked(given: Any) -> bool:
    match given:
        case [str() | None, bool()]:
            return True
    return False


def _as_asked(run: str, name: str, shown: str | None, is_question: bool) -> PendingApproval:
    """A call as far as a decision needs it: the call itself may not wait any more."""
    return PendingApproval(name, "", run, "." if is_question else "", "", "", {}, shown=shown)


def _ended(ending: Mapping[str, Any], waiting: Sequence[PendingApproval] = ()) -> CallToolResult:
    """The result of a turn that ended.

    Args:
        waiting: the calls that wait now, since some of those that the ending names may be decided.
    """
    session = ending["session"]
    if ending["type"] == "complete":
        kept = ("session", "answer", "output", "steps", "cost_usd")
        facts = {name: ending[name] for name in kept if ending.get(name) is not None}
        return CallToolResult(
            content=[TextContent(text=ending["answer"]), TextContent(text=f"session: {session}")],
            structured_content=facts,
        )
    message = ending["message"]
    if waiting:
        calls = ", ".join(f"{each.tool} ({each.id})" for each in waiting)
        message = f"{calls}: not decided. Decide with `zeus --remote URL approvals decide ID approve`."
    facts = {"session": session, "error": ending["code"], "message": visible_text(message)}
    told = [f"{ending['code']}: {message}", f"session: {session}"]
    if waiting:
        facts["approvals"] = [each.as_json() for each in waiting]
        told += [f"waits: {each.id} {json.dumps(dict(each.arguments))}" for each in waiting]
    return CallToolResult(
        content=[TextContent(text="\n".join(map(printable, told)))],
        structured_content=facts,
        is_error=True,
    )
