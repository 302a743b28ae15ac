"""One run: what the graph's two nodes do, the events they emit, and the limits they keep."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from zeus_runtime.agent.chain import blamed, chain, overrides
from zeus_runtime.agent.conversation import Conversation, calls_of, tool_message
from zeus_runtime.agent.meter import Meter, Totals
from zeus_runtime.agent.middleware import Middleware, Turn
from zeus_runtime.agent.planning import Planned, Planning
from zeus_runtime.context import Archive
from zeus_runtime.context.ledger import Decision, Fixed, FixedParts, Step, StepUsage
from zeus_runtime.context.planner import Reported
from zeus_runtime.errors import LimitError, ZeusError
from zeus_runtime.events import (
    Event,
    ModelRetry,
    Notice,
    Reasoning,
    Text,
    ToolCallChunk,
    ToolCallResult,
    ToolCallStarted,
)
from zeus_runtime.models.errors import ModelError
from zeus_runtime.models.interface import (
    Model,
    ModelRequest,
    ModelResponse,
    ReasoningDelta,
    Retrying,
    TextDelta,
    ToolCallDelta,
    ToolSchema,
)
from zeus_runtime.models.profiles import ModelProfile
from zeus_runtime.prompt import Section, assemble
from zeus_runtime.tools import Tool, ToolCall, ToolResult, invoke, permitted, validate_arguments, visible

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, BaseMessage

    from zeus_runtime.config import Limits
    from zeus_runtime.context.tokens import Counter

OVERFLOW_RETRIES = 2
"""How often a request that did not fit is planned again, harder."""


@dataclass(frozen=True)
class Outfit:
    """What a run works with; the same for every run of an agent, but for the middlewares, which are the run's own.

    Args:
        model: the model, with retry around it.
        tools: all tools, also those that the mode hides.
        middlewares: (name, instance) in YAML order.
        stable: sections 1 to 6.
        clock_section: section 7's text, made once per run.
        limits: when to stop.
        profile: the model's limits and prices.
        output_reserve_tokens: what of the window the answer needs.
        meter: what the run uses.
        counter: counts tokens as the model's provider does.
        archive: where originals go before an edit.
    """

    model: Model
    tools: Sequence[Tool]
    middlewares: Sequence[tuple[str, Middleware]]
    stable: Mapping[Section, str]
    clock_section: str
    limits: Limits
    profile: ModelProfile
    output_reserve_tokens: int
    meter: Meter
    counter: Counter
    archive: Archive


@dataclass
class ToolRunView:
    """The ``ToolRun`` that a tool function sees."""

    session: str
    call_id: str
    mode: str
    _state: Mapping[str, Any] = field(repr=False)

    def state(self, name: str) -> Any:
        return self._state.get(name)


class Run:
    """One run of an agent on one thread: the state that its steps share.

    Args:
        turn: who and what.
        outfit: what it works with.
        conversation: the thread's messages.
        emit: where events go.
        prune: drops the run's own intermediate checkpoints.
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
        self._asked_cost_usd: float | None = None
        self._outfit = outfit
        outfit.meter.emit = emit
        self._tools = {tool.name: tool for tool in outfit.tools}
        self._schemas = tuple(
            ToolSchema(shown.name, shown.description, shown.parameters)
            for shown in visible(outfit.tools, turn.mode)
        )
        self._sectioned = [(name, each) for name, each in outfit.middlewares if overrides(each, "sections")]
        self._fixed = FixedParts(outfit.counter, self._schemas)
        self._planning = Planning(
            conversation,
            outfit.middlewares,
            profile=outfit.profile,
            output_reserve_tokens=outfit.output_reserve_tokens,
            archive=outfit.archive,
            emit=emit,
            anchor=_anchor(conversation.last_step, outfit.model.name),
            learned_limit_tokens=_learned_limit(conversation.last_step, outfit),
        )
        self._call_model = chain(outfit.middlewares, "wrap_model_call", self._stream)
        self._call_tool = chain(outfit.middlewares, "wrap_tool_call", self._dispatch)

    @property
    def totals(self) -> Totals:
        """What the run has used so far."""
        return self._outfit.meter.totals

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
        response, step, texts = await self._asked(seq - 1, run_id)
        self.steps += 1
        message = _with_usage(response)
        await self.conversation.append(seq, run_id, message, step=step, texts=texts)
        if response.finish_reason == "length":
            self.emit(
                Notice("answer_cut", "The model stopped at its output limit; the answer is not complete.")
            )
        return message

    async def result(self, answer: int, index: int, seq: int, run_id: str) -> None:
        """The result of one call of the answer at ``answer``, written at ``seq``."""
        message = self.conversation[answer]
        call = calls_of(message)[index]
        kept = self.conversation.kept(seq, run_id)
        if kept is not None:
            self._emit_result(call, text_of(kept), is_error=getattr(kept, "status", "") == "error")
            return
        result = await self._run_call(call)
        artifact = {
            **({"state": dict(result.state)} if result.state else {}),
            **({"artifact": result.artifact} if result.artifact is not None else {}),
        }
        await self.conversation.append(
            seq,
            run_id,
            tool_message(call, result.content, is_error=result.is_error, artifact=artifact or None),
        )
        self._emit_result(call, result.content, is_error=result.is_error)

    async def _asked(self, cursor: int, run_id: str) -> tuple[ModelResponse, Step, Mapping[str, str]]:
        """The model's answer to the messages up to ``cursor``, planned again when the request did not fit."""
        decisions: tuple[Decision, ...] = ()
        retries, failure, self._asked_cost_usd = 0, None, None
        while True:
            request, fixed, planned = await self._request(cursor, forced=retries > 0)
            decisions += planned.decisions
            started = time.monotonic()
            try:
                if failure is not None and not planned.admitted:
                    raise failure
                response = await self._call_model(request)
            except ModelError as error:
                if error.kind == "context_overflow" and error is not failure:
                    decisions += (self._planning.overflowed(planned, error),)
                    if retries < OVERFLOW_RETRIES:
                        retries, failure = retries + 1, error
                        continue
                told = error
                if error.kind == "context_overflow":
                    told = too_large(error, planned, fixed, self._planning.limit_tokens)
                step = self._step(cursor, run_id, planned, fixed, decisions, started)
                await self.conversation.append_step(step.override(error=told.code), fixed.texts)
                raise told from error
            step = self._step(cursor, run_id, planned, fixed, decisions, started)
            return response, self._answered(step, planned, response), fixed.texts

    def _step(
        self,
        cursor: int,
        run_id: str,
        planned: Planned,
        fixed: Fixed,
        decisions: tuple[Decision, ...],
        started: float,
    ) -> Step:
        former = self.conversation.last_step
        policies = self._outfit.meter.take_policies()
        return Step(
            number=1 if former is None else former.number + 1,
            run_id=run_id,
            cursor=cursor,
            edits=planned.view.edits,
            model=self._outfit.model.name,
            input_limit_tokens=planned.budget.input_limit_tokens,
            output_reserve_tokens=planned.budget.output_reserve_tokens,
            limit_learned=self._planning.limit_learned,
            fixed=fixed.digest,
            fixed_tokens=fixed.tokens,
            view_tokens=planned.view.tokens,
            by_source=planned.view.by_source,
            messages=len(planned.view),
            estimate_tokens=planned.estimate_tokens,
            expected_tokens=planned.budget.used_tokens,
            decisions=decisions,
            policy_tokens=policies.prompt_tokens + policies.completion_tokens,
            policy_cost_usd=policies.cost_usd,
            duration_ms=round(1000 * (time.monotonic() - started), 1),
        )

    def _answered(self, step: Step, planned: Planned, response: ModelResponse) -> Step:
        usage = response.usage
        self._planning.sent(planned, None if usage is None else usage.input_tokens)
        reported = None
        if usage is not None:
            reported = StepUsage(
                usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens
            )
        return step.override(
            usage=reported, cost_usd=self._asked_cost_usd, finish_reason=response.finish_reason
        )

    async def _request(self, cursor: int, *, forced: bool) -> tuple[ModelRequest, Fixed, Planned]:
        prompt = assemble(await self._sections())
        fixed = self._fixed.measure(prompt.parts, prompt.text)
        planned = await self._planning.plan(cursor, fixed, forced=forced)
        if planned.admitted:
            # The prefix is broken anyway: a section that follows what left the view changes now, not one step later.
            renewed = assemble(await self._sections())
            if renewed.text != prompt.text:
                prompt, fixed = renewed, self._fixed.measure(renewed.parts, renewed.text)
                planned = replace(planned, estimate_tokens=fixed.tokens + planned.view.tokens)
        request = ModelRequest(
            system=prompt.text,
            messages=planned.view,
            tools=self._schemas,
            stable_system_length=prompt.stable_length,
        )
        return request, fixed, planned

    async def _sections(self) -> Mapping[Section, str]:
        turn = self.turn.override(step=self.steps)
        sections = {**self._outfit.stable, Section.TIME: self._outfit.clock_section}
        for name, middleware in self._sectioned:
            try:
                added = await middleware.sections(turn)
            except ZeusError:
                raise
            except Exception as error:
                raise blamed(name, error) from error
            for section, text in added.items():
                if section in self._outfit.stable:
                    raise blamed(
                        name,
                        ValueError(f"section {section} is stable within a thread; choose one from time on"),
                    )
                sections[section] = f"{sections[section]}\n\n{text}" if sections.get(section) else text
        return sections

    async def compact(self, cursor: int) -> Planned:
        """Let every policy shed what it can, as if the request did not fit, and write the ledger's entry of it."""
        started = time.monotonic()
        _, fixed, planned = await self._request(cursor, forced=True)
        step = self._step(cursor, self.turn.run_id, planned, fixed, planned.decisions, started)
        await self.conversation.append_step(step.override(cause="compact"), fixed.texts)
        return planned

    async def _stream(self, request: ModelRequest) -> ModelResponse:
        shown = request.purpose == "turn"
        response: ModelResponse | None = None
        async for piece in self._outfit.model.stream(request):
            if isinstance(piece, ModelResponse):
                response = piece
            elif shown:
                self.emit(_event_of(piece))
        if response is None:
            raise ModelError("the model's stream ended without an answer", kind="network")
        # Here and not once per step: a middleware may ask the model twice, or for a summary, and each call is paid.
        cost = self._outfit.meter.count(response)
        if shown:
            self._outfit.meter.asked = request
        if cost is not None:
            self._asked_cost_usd = (self._asked_cost_usd or 0.0) + cost
        return response

    async def _run_call(self, call: Mapping[str, Any]) -> ToolResult:
        name, arguments = call["name"], call["args"]
        self.emit(
            ToolCallStarted(
                call_id=str(call["id"]),
                tool_name=name,
                parameters=arguments if isinstance(arguments, dict) else {"_invalid": arguments},
            )
        )
        if not isinstance(arguments, dict):
            return ToolResult(
                f"The arguments of this call are not valid JSON ({call.get('error') or 'unreadable'});"
                " call the tool again with a JSON object.",
                is_error=True,
            )
        return await self._call_tool(ToolCall(str(call["id"]), name, arguments, self.turn.session))

    async def _dispatch(self, call: ToolCall) -> ToolResult:
        tool = self._tools.get(call.name)
        if tool is None:
            known = ", ".join(schema.name for schema in self._schemas) or "none"
            return ToolResult(f"There is no tool {call.name!r}. The tools are: {known}.", is_error=True)
        refusal = permitted(tool, self.turn.mode)
        if refusal is not None:
            return ToolResult(refusal, is_error=True)
        arguments = validate_arguments(tool, call.arguments)
        if isinstance(arguments, str):
            return ToolResult(arguments, is_error=True)
        view = ToolRunView(self.turn.session, call.id, self.turn.mode, self.conversation.state)
        return await invoke(tool, arguments, view)

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
        spent = self.totals.cost_usd
        if limits.max_cost_usd is not None and spent is not None and spent >= limits.max_cost_usd:
            raise LimitError(
                f"the run cost ${spent:.4f} and reached limits.max_cost_usd = {limits.max_cost_usd}",
                remedy="Go on with --continue, or raise limits.max_cost_usd.",
            )


def too_large(error: ModelError, planned: Planned, fixed: Fixed, limit_tokens: int) -> ModelError:
    """``error`` with what of the request takes how much, after all that could be shed was."""
    view = planned.view
    pinned = sum(item.tokens for item in view.items() if item.survival == "pinned")
    sections = sorted(fixed.sections.items(), key=lambda entry: -entry[1].tokens)[:3]
    tools = sum(part.tokens for part in fixed.tools.values())
    parts = [f"{name} {part.tokens:,}" for name, part in sections]
    message = (
        f"{error.message.rstrip('.')}. What is left takes about {planned.budget.used_tokens:,} tokens of"
        f" {limit_tokens:,}: prompt and tools {fixed.tokens:,} ({', '.join([*parts, f'tool schemas {tools:,}'])}),"
        f" {len(view)} messages {view.tokens:,}" + (f" ({pinned:,} pinned)" if pinned else "")
    )
    told = ModelError(
        message,
        kind=error.kind,
        status=error.status,
        input_tokens=error.input_tokens,
        limit_tokens=error.limit_tokens,
        remedy="Use a model with a larger window, add a context policy such as summarization or eviction,"
        " or shorten the prompt files, tools or pinned messages.",
    )
    told.__cause__ = error
    return told


def _learned_limit(step: Step | None, outfit: Outfit) -> int | None:
    """What the provider stated in an earlier run; a limit that the user wrote wins over it."""
    if step is None or step.model != outfit.model.name or not step.limit_learned:
        return None
    written = outfit.profile.sources.get("max_input_tokens", "").startswith("profiles.models")
    return None if written else step.input_limit_tokens


def _anchor(step: Step | None, model: str) -> Reported | None:
    if step is None or step.model != model or step.usage is None:
        return None
    if 2 * step.usage.input_tokens <= step.estimate_tokens:
        return None
    return Reported(step.usage.input_tokens, step.estimate_tokens)


def text_of(message: BaseMessage) -> str:
    """A message's text; content blocks that are not text are left out."""
    content = message.content
    if isinstance(content, str):
        return content
    return "".join(block if isinstance(block, str) else str(block.get("text", "")) for block in content)


def _event_of(piece: TextDelta | ReasoningDelta | ToolCallDelta | Retrying) -> Event:
    if isinstance(piece, TextDelta):
        return Text(piece.text)
    if isinstance(piece, ReasoningDelta):
        return Reasoning(piece.text)
    if isinstance(piece, ToolCallDelta):
        return ToolCallChunk(piece.index, piece.id, piece.name, piece.arguments)
    return ModelRetry(piece.attempt, piece.reason, piece.wait_seconds)


def _with_usage(response: ModelResponse) -> AIMessage:
    message, usage = response.message, response.usage
    if usage is not None and message.usage_metadata is None:
        message.usage_metadata = {
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "total_tokens": usage.input_tokens + usage.output_tokens,
        }
    return message
