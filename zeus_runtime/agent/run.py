"""One run: what the graph's two nodes do, the events they emit, and the limits they keep."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from zeus_runtime.agent.chain import blamed, chain, overrides
from zeus_runtime.agent.conversation import Conversation, calls_of, tool_message
from zeus_runtime.agent.middleware import Middleware, Turn
from zeus_runtime.context import Budget, View, review
from zeus_runtime.errors import LimitError, ZeusError
from zeus_runtime.events import (
    Event,
    ModelRetry,
    Notice,
    Reasoning,
    Text,
    TokenUsage,
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
from zeus_runtime.models.profiles import ModelProfile, cost_usd
from zeus_runtime.prompt import Section, assemble
from zeus_runtime.tools import Tool, ToolCall, ToolResult, invoke, permitted, validate_arguments, visible

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, BaseMessage

    from zeus_runtime.config import Limits


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
        budget: what one model call may hold.
        profile: the model's prices.
    """

    model: Model
    tools: Sequence[Tool]
    middlewares: Sequence[tuple[str, Middleware]]
    stable: Mapping[Section, str]
    clock_section: str
    limits: Limits
    budget: Budget
    profile: ModelProfile


@dataclass
class Totals:
    """What a run has used so far, in tokens and US dollars; ``cost_usd`` is None while no price was known."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = None


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
        self.totals = Totals()
        self._unpriced = False
        self._outfit = outfit
        self._tools = {tool.name: tool for tool in outfit.tools}
        self._schemas = tuple(
            ToolSchema(shown.name, shown.description, shown.parameters)
            for shown in visible(outfit.tools, turn.mode)
        )
        self._sectioned = [(name, each) for name, each in outfit.middlewares if overrides(each, "sections")]
        self._editing = [(name, each) for name, each in outfit.middlewares if overrides(each, "edits")]
        self._call_model = chain(outfit.middlewares, "wrap_model_call", self._stream)
        self._call_tool = chain(outfit.middlewares, "wrap_tool_call", self._dispatch)

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
        response = await self._call_model(await self._request(seq - 1))
        self.steps += 1
        message = _with_usage(response)
        await self.conversation.append(seq, run_id, message)
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

    async def _request(self, cursor: int) -> ModelRequest:
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
        prompt = assemble(sections)
        return ModelRequest(
            system=prompt.text,
            messages=await self._plan(cursor),
            tools=self._schemas,
            stable_system_length=prompt.stable_length,
        )

    async def _plan(self, cursor: int) -> View:
        view = self.conversation.view(cursor)
        for name, middleware in self._editing:
            try:
                proposed = await middleware.edits(view, self._outfit.budget)
            except ZeusError:
                raise
            except Exception as error:
                raise blamed(name, error) from error
            for edit in proposed:
                refusal = review(view, edit)
                if refusal is None:
                    await self.conversation.admit(edit, cursor)
                    view = self.conversation.view(cursor)
                else:
                    self.emit(Notice("edit_refused", f"An edit of {name} was refused: {refusal.reason}."))
        return view

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
        self._count(response)
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
        if limits.max_cost_usd is not None and self._unpriced:
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

    def _count(self, response: ModelResponse) -> None:
        usage = response.usage
        cost = response.cost_usd
        if cost is None and usage is not None:
            cost = cost_usd(self._outfit.profile, usage)
        self._unpriced = self._unpriced or cost is None
        if cost is not None:
            self.totals.cost_usd = (self.totals.cost_usd or 0.0) + cost
        if usage is None:
            return
        self.totals.prompt_tokens += usage.input_tokens
        self.totals.completion_tokens += usage.output_tokens
        self.emit(
            TokenUsage(
                prompt_tokens=usage.input_tokens,
                completion_tokens=usage.output_tokens,
                cached_tokens=usage.cache_read_tokens,
                cache_write_tokens=usage.cache_write_tokens,
                cost_usd=cost,
            )
        )


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
