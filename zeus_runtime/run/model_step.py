"""Ask the model: sections, plan, call, another try after an overflow, and the ledger's entry."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from zeus_runtime.config.secrets.masking import Redactor
from zeus_runtime.context.cache_model import cached_seconds
from zeus_runtime.context.edit_rules import Reported
from zeus_runtime.context.ledger import PolicyDecision, StepRecord, StepUsage
from zeus_runtime.context.prompt_cost import Fixed, FixedParts
from zeus_runtime.context.tokens.uncertainty import first_share
from zeus_runtime.errors import ZeusError
from zeus_runtime.events import Event, ModelRetry, Notice, OutputPartial, Reasoning, Text, ToolCallChunk
from zeus_runtime.middleware.chain import Blaming, blamed, chain, overrides
from zeus_runtime.middleware.protocol import Sources, Turn
from zeus_runtime.models.errors import ModelError
from zeus_runtime.models.interface import (
    ModelRequest,
    ModelResponse,
    ReasoningDelta,
    Retrying,
    TextDelta,
    ToolSchema,
)
from zeus_runtime.models.masking import HeldPieces, StreamedText, masked_schemas
from zeus_runtime.plan.output import FINAL_TOOL
from zeus_runtime.prompt import Assembled, Section, SourcedText, assemble
from zeus_runtime.run.context_planner import ContextPlanner, LastRequest, PlannedContext
from zeus_runtime.run.cost_limit import Projection, cached_before, projection
from zeus_runtime.run.growing_output import GrowingOutput
from zeus_runtime.run.request_changes import RequestChanges
from zeus_runtime.run.resources import RunResources
from zeus_runtime.run.spans import context_attributes, note_answer, note_request, trace_compaction
from zeus_runtime.run.transcript import Transcript
from zeus_runtime.tools.calling_tool import calling
from zeus_runtime.tools.modes import has_connectors
from zeus_runtime.tracing import Value

OVERFLOW_RETRIES = 2
"""How often a request that did not fit is planned again, with every policy's trigger counted as reached."""


@dataclass(frozen=True)
class Answered:
    """An answer, and the ledger's record of it.

    Args:
        response: the model's.
        step: the ledger's entry.
        texts: the parts of the prompt by digest.
    """

    response: ModelResponse
    step: StepRecord
    texts: Mapping[str, str]


@dataclass(frozen=True)
class _Request:
    """A planned request, before it is sent.

    Args:
        sent: the request.
        fixed: the cost of its parts other than messages.
        planned: its messages.
    """

    sent: ModelRequest
    fixed: Fixed
    planned: PlannedContext


class ModelStep:
    """The model calls of one run.

    Args:
        turn: the session, the run and the prompt.
        resources: the resources of the run.
        transcript: the session's messages.
        emit: receives the events.
    """

    def __init__(
        self, turn: Turn, resources: RunResources, transcript: Transcript, emit: Callable[[Event], None]
    ) -> None:
        self._turn = turn
        self._resources = resources
        self._transcript = transcript
        self._emit = emit
        self._cost_usd: float | None = None
        self._is_estimated = False
        self._projected = Projection(0, 0, None)
        self._told: set[str] = set()
        self._given: tuple[ToolSchema, ...] = ()
        self.schemas: tuple[ToolSchema, ...] = ()
        self._masked: dict[Section, tuple[str, str]] = {}
        self._prompt: tuple[Mapping[Section, str], Assembled] | None = None
        # A secret may be split over two pieces, so masking each event is too late. A model behind the mask holds the
        # pieces back itself.
        self._held_back = Redactor() if resources.secrets is resources.known else resources.known
        self._sectioned = [
            (name, each) for name, each in resources.middlewares if overrides(type(each), "sections")
        ]
        self._form = resources.output
        form = {} if self._form is None else resources.secrets.masked(self._form.settings)
        self._settings: Mapping[str, Any] = {**form, **resources.reasoning}
        self._fixed = self._fixed_parts()
        self._refresh_tools()
        self._planning = ContextPlanner(
            transcript,
            resources.middlewares,
            profile=resources.profile,
            output_reserve_tokens=resources.output_reserve_tokens,
            archive=resources.archive,
            emit=emit,
            anchor=_anchor(transcript.last_step, resources.model.name),
            last=_last_request(transcript, resources.model.name),
            learned_limit_tokens=_learned_limit(transcript.last_step, resources),
            margin_share=_margin_share(transcript.last_step, resources),
        )
        self._noted: Mapping[str, Value] = {}
        self._changes: RequestChanges | None = None
        self._planned: PlannedContext | None = None
        self._growing: GrowingOutput | None = None
        self._call = chain(
            resources.middlewares, "wrap_model_call", self._stream, ModelResponse, self._note_change
        )

    async def ask(
        self,
        cursor: int,
        run_id: str,
        steps: int,
        why: str = "",
        noted: Mapping[str, Value] | None = None,
    ) -> Answered:
        """The model's answer to the messages up to ``cursor``; a request that does not fit is planned again.

        Args:
            steps: how many steps the run has made.
            why: why this model of a chain is asked, for the ledger.
            noted: attributes of the calls' spans.

        Raises:
            ModelError: the provider's; the ledger has an entry for it.
        """
        # Over all tries: the ledger has one entry for the step, also if an overflow made it plan again.
        decisions: tuple[PolicyDecision, ...] = ()
        self._noted = noted or {}
        retries, failure, self._cost_usd, self._is_estimated = 0, None, None, False
        while True:
            request = await self._request(cursor, steps, forced=retries > 0)
            decisions += request.planned.decisions
            self._planned = request.planned
            self._projected = self._projection(request.planned)
            self._changes = RequestChanges(request.sent, self._resources.counter)
            started = time.monotonic()
            try:
                # No policy could remove anything: the same request would fail in the same way.
                if failure is not None and not request.planned.admitted:
                    raise failure
                response = await self._call(request.sent)
            except ModelError as error:
                # `failure` itself comes back when no policy could remove anything; it was counted the first time.
                if error.kind == "context_overflow" and error is not failure:
                    decisions += (self._planning.overflowed(request.planned, error),)
                    if retries < OVERFLOW_RETRIES:
                        retries, failure = retries + 1, error
                        continue
                told = error
                if error.kind == "context_overflow":
                    told = too_large(error, request.planned, request.fixed, self._planning.limit_tokens)
                step = self._step(cursor, run_id, request, decisions, started, why)
                # Before the error leaves: the ledger has the call even if the run ends here, and the next entry's
                # number follows it.
                await self._transcript.append_step(step.override(error=told.code), request.fixed.texts)
                raise told from error
            except ZeusError as error:
                if self._is_paid():  # a middleware refuses the answer
                    step = self._step(cursor, run_id, request, decisions, started, why)
                    refused = step.override(error=error.code, **self._cost())
                    await self._transcript.append_step(refused, request.fixed.texts)
                raise
            step = self._step(cursor, run_id, request, decisions, started, why)
            return Answered(response, self._answered(step, request.planned, response), request.fixed.texts)

    @property
    def limit_tokens(self) -> int:
        """The model's input limit as known so far."""
        return self._planning.limit_tokens

    def _is_paid(self) -> bool:
        """Whether the call has cost something so far."""
        return self._cost_usd is not None

    async def compact(self, cursor: int, steps: int) -> PlannedContext:
        """Let every policy remove what it can, as after an overflow, and write an entry of the ledger."""
        started, self._changes = time.monotonic(), None
        request = await self._request(cursor, steps, forced=True)
        step = self._step(cursor, self._turn.run_id, request, request.planned.decisions, started)
        await self._transcript.append_step(step.override(cause="compact"), request.fixed.texts)
        return request.planned

    def _step(
        self,
        cursor: int,
        run_id: str,
        request: _Request,
        decisions: tuple[PolicyDecision, ...],
        started: float,
        why: str = "",
    ) -> StepRecord:
        planned, fixed = request.planned, request.fixed
        former = self._transcript.last_step
        # Taken once for each entry, so that no cost of a policy is counted in two of them.
        policies = self._resources.meter.take_policies()
        return StepRecord(
            number=1 if former is None else former.number + 1,
            run_id=run_id,
            cursor=cursor,
            edits=planned.view.edits,
            model=self._resources.model.name,
            input_limit_tokens=planned.budget.input_limit_tokens,
            output_reserve_tokens=planned.budget.output_reserve_tokens,
            limit_learned=self._planning.limit_learned,
            margin_share=self._planning.margin_share,
            fixed=fixed.digest,
            fixed_tokens=fixed.tokens,
            view_tokens=planned.view.tokens,
            by_source=planned.view.by_source,
            messages=len(planned.view),
            estimate_tokens=planned.estimate_tokens,
            expected_tokens=planned.budget.used_tokens,
            decisions=decisions,
            why=why,
            changes=() if self._changes is None else self._changes.noted,
            sent="" if self._changes is None else self._changes.digest,
            policy_tokens=policies.prompt_tokens + policies.completion_tokens,
            policy_cost_usd=policies.cost_usd,
            duration_ms=round(1000 * (time.monotonic() - started), 1),
        )

    def _answered(self, step: StepRecord, planned: PlannedContext, response: ModelResponse) -> StepRecord:
        usage = response.usage
        asked = self._resources.meter.asked
        cached = cached_seconds(self._resources.profile.name, None if asked is None else asked.cache_points)
        self._planning.sent(planned, None if usage is None else usage.input_tokens, cached)
        reported = None
        if usage is not None:
            reported = StepUsage(
                usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens
            )
        return step.override(
            margin_share=self._planning.margin_share,
            usage=reported,
            cache_seconds=cached,
            finish_reason=response.finish_reason,
            **self._cost(),
        )

    def _cost(self) -> dict[str, Any]:
        """The cost of the call so far, as the ledger has it."""
        return {
            "cost_usd": self._cost_usd,
            "cost_estimated": self._is_estimated and self._cost_usd is not None,
        }

    def _note_change(self, middleware: str, given: ModelRequest, changed: ModelRequest) -> None:
        if self._changes is not None:
            self._changes.note(middleware, given, changed)

    def _projection(self, planned: PlannedContext) -> Projection:
        """The possible cost of the call; tokens that the last request left in the cache cost the cache price."""
        last, budget = self._transcript.last_step, planned.budget
        # An edit changes the prefix, so the provider's cache no longer matches.
        is_cold = bool(planned.admitted) or budget.cache_expired
        cached = 0 if is_cold else cached_before(last, self._resources.model.name)
        reserve = self._resources.output_reserve_tokens
        return projection(self._resources.profile, budget.used_tokens, reserve, cached_tokens=cached)

    def _refresh_tools(self) -> None:
        """Apply changes of the tools: a toolset has other tools, or the model has loaded a schema."""
        toolbox = self._resources.toolbox
        given = toolbox.schemas(self._turn.mode, self._transcript.state.get)
        refused = list(toolbox.refused)
        if self._form is not None and self._form.tool is not None:
            if any(each.name == FINAL_TOOL for each in given):
                refused.append(f"{FINAL_TOOL!r} is the name of the call that gives the answer")
            given = (*(each for each in given if each.name != FINAL_TOOL), self._form.tool)
        for problem in refused:
            if problem not in self._told:
                self._told.add(problem)
                self._emit(Notice("tool_refused", f"A tool is not offered to the model: {problem}."))
        for problem in toolbox.lacks:
            if problem not in self._told:
                self._told.add(problem)
                self._emit(Notice("tool_missing", problem))
        # Most steps have the same tools, and to mask and count them again costs more than this comparison.
        if given != self._given:
            self._given = given
            self.schemas = masked_schemas(given, self._resources.secrets)
            self._fixed = self._fixed_parts()

    def _fixed_parts(self) -> FixedParts:
        resources = self._resources
        return FixedParts(resources.counter, self.schemas, resources.tool_counts, self._settings)

    async def _request(self, cursor: int, steps: int, *, forced: bool) -> _Request:
        self._refresh_tools()
        sections, sources = await self._sections(steps)
        prompt = self._assembled(sections)
        fixed = self._fixed.measure(prompt.parts, prompt.text, sources)
        started_ns = time.time_ns()
        # May take seconds, since a policy may call a model; the tools were refreshed before, and stay for this request.
        planned = await self._planning.plan(cursor, fixed, forced=forced)
        if planned.admitted:
            trace_compaction(planned, started_ns)
            # The edits changed the cached prefix anyway, so dependent sections change now, not one step later.
            sections, sources = await self._sections(steps)
            renewed = self._assembled(sections)
            # The view was planned with the former sections; the next step's plan sees the difference.
            if renewed.text != prompt.text:
                prompt, fixed = renewed, self._fixed.measure(renewed.parts, renewed.text, sources)
                planned = replace(planned, estimate_tokens=fixed.tokens + planned.view.tokens)
        request = ModelRequest(
            system=prompt.text,
            messages=planned.view,
            tools=self.schemas,
            stable_system_length=prompt.stable_length,
            settings=self._settings,
        )
        return _Request(request, fixed, planned)

    def _assembled(self, sections: Mapping[Section, str]) -> Assembled:
        """The system prompt; most steps have the same sections as the step before."""
        if self._prompt is None or self._prompt[0] != sections:
            self._prompt = sections, assemble(sections)
        return self._prompt[1]

    async def _sections(self, steps: int) -> tuple[Mapping[Section, str], Mapping[str, Sources]]:
        turn = self._turn.override(step=steps)
        sections = {**self._resources.stable, Section.TIME: self._resources.clock_section}
        sources: dict[str, Sources] = {}
        project = self._resources.project.text
        if project:
            sections[Section.PROFILE] = project
            sources[Section.PROFILE] = project.sources if isinstance(project, SourcedText) else ()
        for toolset in self._resources.toolbox.toolsets:
            given = {Section(name): text for name, text in toolset.sections().items() if text}
            if not has_connectors(turn.mode):
                given.pop(Section.CONNECTOR, None)
            sections.update(given)
        for name, middleware in self._sectioned:
            with Blaming(name):
                with calling(None, of_session=True):
                    told = await middleware.sections(turn)
                added = {Section(section): _as_text(text) for section, text in told.items()}
            for section, text in added.items():
                if section in self._resources.stable:
                    raise blamed(
                        name,
                        ValueError(f"section {section} is stable within a thread; choose one from time on"),
                    )
                sections[section] = f"{sections[section]}\n\n{text}" if sections.get(section) else text
                if isinstance(text, SourcedText) and text.sources:
                    sources[section] = (*sources.get(section, ()), *text.sources)
        return {section: self._shown(section, text) for section, text in sections.items()}, sources

    def _shown(self, section: Section, text: str) -> str:
        """A section's text with known secrets masked; an unchanged text is not searched again."""
        former = self._masked.get(section)
        if former is None or former[0] != text:
            former = self._masked[section] = (text, self._resources.secrets.text(text))
        return former[1]

    async def _stream(self, request: ModelRequest) -> ModelResponse:
        resources, shown = self._resources, request.purpose == "turn"
        response: ModelResponse | None = None
        held = HeldPieces(self._held_back)
        self._growing = None if self._form is None else GrowingOutput()
        # Counted here and not per step: a middleware may call the model twice, or for a summary; each costs.
        model = resources.model
        with resources.meter.call(
            self._projected,
            purpose=request.purpose,
            model=model.name,
            noted={**self._noted, **context_attributes(self._planned)},
            is_current=True,
        ) as call:
            note_request(call.span, request, resources.known)
            async for piece in model.stream(request):
                call.note_piece()
                if isinstance(piece, ModelResponse):
                    response = piece
                elif not shown:
                    continue
                elif isinstance(piece, Retrying):
                    held = HeldPieces(self._held_back)
                    self._growing = None if self._form is None else GrowingOutput()
                    self._emit(ModelRetry(piece.attempt, piece.reason, piece.wait_seconds))
                else:
                    self._emit_pieces(held.passed(piece))
            self._emit_pieces(held.rest())
            if response is None:
                # Counts as a cut connection, after which the next model of a chain may answer.
                raise ModelError("the model's stream ended without an answer", kind="network")
            counted = resources.meter.count(call, response, lambda: self._projected.input_tokens)
            note_answer(call.span, response.message, resources.known)
        response = replace(response, usage=counted.reported)
        # A step may have several calls; one estimate makes their sum an estimate.
        self._is_estimated = self._is_estimated or counted.reported is None
        if counted.cost_usd is not None:
            self._cost_usd = (self._cost_usd or 0.0) + counted.cost_usd
        if shown:
            # After the answer, so that a refused request is never the one that a policy continues from.
            resources.meter.asked = request
        return response

    def _emit_pieces(self, pieces: Iterable[StreamedText]) -> None:
        for piece in pieces:
            if self._growing is not None and (grown := self._growing.with_piece(piece)) is not None:
                self._emit(OutputPartial(grown.value))
            if self._growing is None or not self._growing.has(piece):
                self._emit(_event_of(piece))


def too_large(error: ModelError, planned: PlannedContext, fixed: Fixed, limit_tokens: int) -> ModelError:
    """``error`` with the sizes of the request's parts, after the policies have removed all they can."""
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
        whole=error.whole,
    )
    told.__cause__ = error
    return told


def _learned_limit(step: StepRecord | None, resources: RunResources) -> int | None:
    """The limit that the provider stated in an earlier run; a limit in the user's config takes precedence."""
    if step is None or step.model != resources.model.name or not step.limit_learned:
        return None
    written = resources.profile.sources.get("max_input_tokens", "").startswith("profiles.models")
    return None if written else step.input_limit_tokens


def _margin_share(step: StepRecord | None, resources: RunResources) -> float:
    """The share that the last step of this model left; one of 0 is of an exact count, or of an older version."""
    learned = step.margin_share if step is not None and step.model == resources.model.name else 0.0
    return learned or first_share(resources.counter)


def _anchor(step: StepRecord | None, model: str) -> Reported | None:
    if step is None or step.model != model or step.usage is None:
        return None
    # As in `ContextPlanner.sent`: such a count is not believed.
    if 2 * step.usage.input_tokens <= step.estimate_tokens:
        return None
    return Reported(step.usage.input_tokens, step.estimate_tokens)


def _last_request(transcript: Transcript, model: str) -> LastRequest | None:
    step = transcript.last_step
    if step is None or step.model != model or not transcript.holds_answer(step):
        return None
    return LastRequest(transcript.view(step.cursor), transcript.last_step_ms + 1000 * step.cache_seconds)


def _as_text(text: object) -> str:
    if not isinstance(text, str):
        raise TypeError(f"a section's text is a {type(text).__name__}")
    return text


def _event_of(piece: StreamedText) -> Event:
    if isinstance(piece, TextDelta):
        return Text(piece.text)
    if isinstance(piece, ReasoningDelta):
        return Reasoning(piece.text)
    return ToolCallChunk(piece.index, piece.id, piece.name, piece.arguments)
