"""One run: what the graph's two nodes do, the events they emit, and the limits they keep."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zeus_runtime.agent.approvals import CallDesk
from zeus_runtime.agent.asking import Asking
from zeus_runtime.agent.chain import chain
from zeus_runtime.agent.conversation import Conversation, tool_message
from zeus_runtime.agent.meter import Totals
from zeus_runtime.agent.middleware import Middleware, Turn
from zeus_runtime.agent.outfit import Outfit
from zeus_runtime.agent.planning import Planned
from zeus_runtime.agent.tool_run import ToolRunView
from zeus_runtime.errors import LimitError
from zeus_runtime.events import Event, Notice, Text, ToolCallResult, ToolCallStarted, ToolProgress
from zeus_runtime.models.content import calls_of, text_of
from zeus_runtime.models.interface import ModelResponse
from zeus_runtime.models.messages import well_formed
from zeus_runtime.models.pictures import MOST_PICTURES, Picture, not_seen, too_large
from zeus_runtime.tools import ToolCall, ToolResult, invoke, permitted, validate_arguments
from zeus_runtime.tools.approval import ApprovalRequest
from zeus_runtime.tools.clock import Clock, all_standing_still
from zeus_runtime.tools.deferred import LOADER, is_loaded, not_called, schema_result
from zeus_runtime.tools.masked_text import masked_result

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, BaseMessage

    from zeus_runtime.agent.approvals import Desk
    from zeus_runtime.config import Limits
    from zeus_runtime.tools.approval import PendingApproval


class Run:
    """One run of an agent on one thread: the state that its steps share.

    Args:
        turn: who and what.
        outfit: what it works with.
        conversation: the thread's messages.
        emit: where events go.
        prune: drops the run's own intermediate checkpoints.

    Attributes:
        waiting: what must be decided before the run can go on.
    """

    def __init__(
        self,
        turn: Turn,
        outfit: Outfit,
        conversation: Conversation,
        emit: Callable[[Event], None],
        prune: Callable[[], Awaitable[None]],
    ) -> None:
        self.turn = turn
        self.conversation = conversation
        self.emit = emit
        self.prune = prune
        self.steps = 0
        self._outfit = outfit
        outfit.meter.emit = emit
        self._asking = Asking(turn, outfit, conversation, emit)
        self._call_tool = chain(outfit.middlewares, "wrap_tool_call", self._dispatch, ToolResult)
        self._absent: dict[str, str] = {}
        self.waiting: list[PendingApproval] = []

    @property
    def totals(self) -> Totals:
        """What the run has used so far."""
        return self._outfit.meter.totals

    @property
    def approvals(self) -> Desk:
        """How its user is asked."""
        return self._outfit.approvals

    @property
    def limits(self) -> Limits:
        return self._outfit.limits

    @property
    def middlewares(self) -> Sequence[tuple[str, Middleware]]:
        return self._outfit.middlewares

    @property
    def answer_text(self) -> str:
        """The text of the thread's last message, the run's answer once it has ended; empty if no model was asked."""
        last = self.conversation[self.conversation.last]
        return text_of(last) if last.type == "ai" else ""

    async def answer(self, seq: int, run_id: str) -> BaseMessage:
        """The model's answer at ``seq``: from the log if this run already has it, else by a model call."""
        kept = self.conversation.kept(seq, run_id)
        if kept is not None:
            if text := text_of(kept):
                self.emit(Text(text))
            return kept
        self._keep_limits()
        asked = await self._asking.ask(seq - 1, run_id, self.steps)
        self.steps += 1
        message = _with_usage(asked.response)
        await self.conversation.append(seq, run_id, message, step=asked.step, texts=asked.texts)
        if asked.response.finish_reason == "length":
            self.emit(
                Notice("answer_cut", "The model stopped at its output limit; the answer is not complete.")
            )
        return message

    async def compact(self, cursor: int) -> Planned:
        """Let every policy shed what it can, as if the request did not fit, and write the ledger's entry of it."""
        return await self._asking.compact(cursor, self.steps)

    async def result(self, answer: int, index: int, seq: int, run_id: str) -> None:
        """The result of one call of the answer at ``answer``, written at ``seq``."""
        message = self.conversation[answer]
        call = calls_of(message)[index]
        kept = self.conversation.kept(seq, run_id)
        if kept is not None:
            self._emit_result(call, text_of(kept), is_error=getattr(kept, "status", "") == "error")
            return
        result = await self._run_call(call, seq)
        content = well_formed(result.content)
        artifact = {
            **({"state": dict(result.state)} if result.state else {}),
            **({"artifact": result.artifact} if result.artifact is not None else {}),
        }
        await self.conversation.append(
            seq,
            run_id,
            tool_message(
                call,
                content,
                is_error=result.is_error,
                artifact=artifact or None,
                pictures=self._shown(result),
            ),
        )
        self._emit_result(call, content, is_error=result.is_error)

    def _shown(self, result: ToolResult) -> list[Picture]:
        """The pictures that go with a result; who watches is told of those that the model is not shown."""
        shown = [each for each in result.pictures if too_large(each) is None][:MOST_PICTURES]
        for each in result.pictures:
            why = not_seen(each, self._outfit.profile)
            if why is None and each not in shown:
                why = f"of one result {MOST_PICTURES} are shown"
            if why is not None:
                self.emit(Notice("picture_not_shown", f"{each.label} is not shown to the model: {why}."))
        return shown

    async def _run_call(self, call: Mapping[str, Any], place: int) -> ToolResult:
        name, arguments = call["name"], call["args"]
        is_whole = isinstance(arguments, dict)
        asked = ToolCall(str(call["id"]), name, arguments if is_whole else {}, self.turn.session, place)
        # Before anybody is asked about the call: whether it would run, and what it would do, depends on it.
        self._absent[name] = await self._outfit.equipment.awaited(name)
        made = self._loading(asked) or asked
        self.emit(
            ToolCallStarted(
                call_id=asked.id,
                tool_name=name,
                parameters=arguments if is_whole else {"_invalid": arguments},
                requires_approval=is_whole and await self._outfit.approvals.requires(made),
            )
        )
        if not is_whole:
            return ToolResult(
                f"The arguments of this call are not valid JSON ({call.get('error') or 'unreadable'});"
                " call the tool again with a JSON object.",
                is_error=True,
            )
        result = await self._call_tool(made)
        return result if made is asked or result.is_error else not_called(result)

    def _loading(self, call: ToolCall) -> ToolCall | None:
        """The call that is made instead of one whose parameters the model has not seen: it asks for them."""
        tool = self._outfit.equipment.find(call.name)
        if tool is None or permitted(tool, self.turn.mode) or is_loaded(tool, self.conversation.state.get):
            return None
        return replace(call, name=LOADER, arguments={"names": [call.name]})

    async def _dispatch(self, call: ToolCall) -> ToolResult:
        tool = self._outfit.equipment.find(call.name)
        if tool is None and (why := self._absent.get(call.name)):
            return ToolResult(f"{call.name} is not there now. {why}", is_error=True)
        if tool is None:
            known = ", ".join(schema.name for schema in self._asking.schemas) or "none"
            return ToolResult(f"There is no tool {call.name!r}. The tools are: {known}.", is_error=True)
        refusal = permitted(tool, self.turn.mode)
        if refusal is not None:
            return ToolResult(refusal, is_error=True)
        if not is_loaded(tool, self.conversation.state.get):
            return not_called(schema_result([tool]))
        arguments = validate_arguments(tool, call.arguments)
        if isinstance(arguments, str):
            return ToolResult(arguments, is_error=True)
        decision = await self._outfit.approvals.held(
            ApprovalRequest(tool.name, arguments, str(call.place), call.id)
        )
        if decision is not None and decision.answer == "reject":
            return _rejected(tool.name, decision.reason)
        if decision is not None and decision.arguments is not None:
            arguments = dict(decision.arguments)
        turn = self.turn

        def progress(message: str, done: float | None, total: float | None) -> None:
            self.emit(ToolProgress(call.id, call.name, message, done, total))

        clock = Clock(tool.timeout_seconds)
        view = ToolRunView(
            session=turn.session,
            call_id=call.id,
            mode=turn.mode,
            run_id=turn.run_id,
            user_text=turn.user_text,
            place=call.place,
            approvals=CallDesk(self._outfit.approvals, clock),
            _state=self.conversation.state,
            _send=lambda *work: self._delegate(call, clock, *work),
            _progress=progress,
            _waiting=lambda: all_standing_still((*self._outfit.approvals.clocks, clock)),
            tool=call.name,
            person=self._outfit.approvals.person,
            is_attended=self._outfit.approvals.channel is not None,
            secrets=self._outfit.secrets,
        )
        result = masked_result(await invoke(tool, arguments, view, clock), self._outfit.secrets)
        if view.waits is not None:
            raise view.waits
        return result

    async def _delegate(
        self,
        call: ToolCall,
        clock: Clock,
        agent: str,
        prompt: str,
        description: str,
        handles: Sequence[str],
    ) -> ToolResult:
        from zeus_runtime.agent.errand import Errand

        assert self._outfit.delegate is not None, "no tool is called in a simulation"
        return await self._outfit.delegate(
            Errand(
                agent=agent,
                prompt=prompt,
                description=description,
                handles=tuple(handles),
                call_id=call.id,
                place=call.place,
                run_id=self.turn.run_id,
                view=lambda: self.conversation.view(self.conversation.answer_of(call.place) - 1),
                meter=self._outfit.meter,
                emit=self.emit,
                clock=clock,
            )
        )

    def _emit_result(self, call: Mapping[str, Any], content: str, *, is_error: bool) -> None:
        self.emit(ToolCallResult(str(call["id"]), call["name"], content, is_error))

    def _keep_limits(self) -> None:
        limits = self._outfit.limits
        if self.steps >= limits.max_steps:
            raise LimitError(
                f"the run reached limits.max_steps = {limits.max_steps}",
                remedy="Go on with --continue, or raise limits.max_steps.",
            )
        if limits.max_cost_usd is not None and self._outfit.meter.unpriced:
            raise LimitError(
                f"limits.max_cost_usd = {limits.max_cost_usd} cannot be kept: the provider does not report its usage",
                remedy="Drop limits.max_cost_usd, or use a provider that reports usage; go on with --continue.",
            )
        if self._outfit.meter.spent_above:
            raise LimitError(
                "the run that this agent works for reached its limits.max_cost_usd",
                remedy="Raise it there, and go on with --continue.",
            )
        spent = self.totals.cost_usd
        if limits.max_cost_usd is not None and spent is not None and spent >= limits.max_cost_usd:
            raise LimitError(
                f"the run cost ${spent:.4f} and reached limits.max_cost_usd = {limits.max_cost_usd}",
                remedy="Go on with --continue, or raise limits.max_cost_usd.",
            )


def _with_usage(response: ModelResponse) -> AIMessage:
    message, usage = response.message, response.usage
    if usage is not None and message.usage_metadata is None:
        message.usage_metadata = {
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "total_tokens": usage.input_tokens + usage.output_tokens,
        }
    return message


def _rejected(tool: str, reason: str) -> ToolResult:
    """What the model is told of a call that a person rejected under another config, whose middleware is not here."""
    why = f": {reason}" if reason else ""
    return ToolResult(f"The user rejected this call of {tool}{why}. It was not run.", is_error=True)
