"""A run's usage: every model call counted once, the agent's own and its policies'."""

from __future__ import annotations

import secrets
import time
from asyncio import CancelledError
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zeus_runtime.context.tokens import request_tokens
from zeus_runtime.errors import LimitError, ZeusError
from zeus_runtime.events import Event, ModelCallEnded, ModelCallStarted, Notice, TokenUsage
from zeus_runtime.models.answers import believed
from zeus_runtime.models.interface import Model, ModelPiece, ModelRequest, ModelResponse, Usage
from zeus_runtime.models.profiles import ModelProfile, cost_usd
from zeus_runtime.run.cost_limit import Projection, projection, refuse_call
from zeus_runtime.tracing import TraceSpan, Value, error_type, model_attributes, record_model_call

if TYPE_CHECKING:
    from zeus_runtime.context.tokens import Counter


@dataclass
class Totals:
    """The usage so far, in tokens and US dollars; ``cost_usd`` is None while no price was known."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = None

    def add(self, usage: Usage | None, cost: float | None) -> None:
        """Add a call's usage, and its cost in US dollars; None where it is unknown."""
        if cost is not None:
            self.cost_usd = (self.cost_usd or 0.0) + cost
        if usage is not None:
            self.prompt_tokens += usage.input_tokens
            self.completion_tokens += usage.output_tokens


@dataclass(frozen=True)
class Counted:
    """The usage of a finished call.

    Args:
        reported: the provider's report; None where it is missing or cannot be believed.
        cost_usd: US dollars, estimated where ``reported`` is None; None where no price is known.
        tokens: ``reported``, or an estimate.
    """

    reported: Usage | None
    cost_usd: float | None
    tokens: Usage


@dataclass
class ModelCall:
    """A model call that is running.

    Args:
        id: 8 hex digits.
        span: its span.
        finish_reason: the answer's; empty until it is there.
        model: the name that the provider answered under, likewise.
        usage, cost_usd: as counted; None until then.
        first_piece_seconds: the time from its start until the answer's first piece; None until then.
        started: on the monotonic clock.
    """

    id: str
    span: TraceSpan
    finish_reason: str = ""
    model: str = ""
    usage: Usage | None = None
    cost_usd: float | None = None
    first_piece_seconds: float | None = None
    started: float = field(default_factory=time.monotonic)

    def note_piece(self) -> None:
        """Note that a piece of the answer is there."""
        if self.first_piece_seconds is None:
            self.first_piece_seconds = round(time.monotonic() - self.started, 4)


_UNKNOWN = "The provider reports no usage that can be read: tokens and cost of this run are estimates."


@dataclass
class UsageMeter:
    """Counts the usage of one run and keeps its cost limit.

    Args:
        profile: the prices of the running model; of a chain, of the one that is asked now.
        counter: counts the tokens of a call whose usage is unknown, as that model's provider does.
        totals: the usage of the whole run.
        policies: the part of ``totals`` that policies' own calls used since ``take_policies``.
        emit: receives usage events.
        unpriced: whether a call's price is unknown, so that no cost limit can be kept.
        asked: the run's last answered request, as it was sent.
        above: the parent run's meter, which also counts this run's usage.
        limit_usd: the cost limit of the turn; None for no limit.
        before_usd: the cost of the turn before this run resumed it.
        session: the run's, for its spans.
    """

    profile: ModelProfile
    counter: Counter
    totals: Totals = field(default_factory=Totals)
    policies: Totals = field(default_factory=Totals)
    emit: Callable[[Event], None] | None = None
    unpriced: bool = False
    asked: ModelRequest | None = field(default=None, repr=False)
    above: UsageMeter | None = field(default=None, repr=False)
    limit_usd: float | None = None
    before_usd: float = 0.0
    session: str = ""
    _held_usd: float = 0.0
    _told: bool = False
    # A random start, then counted: ids differ within the run, and hardly ever between runs.
    _last_id: int = field(default_factory=lambda: secrets.randbits(32), repr=False)

    @property
    def is_limited(self) -> bool:
        """Whether a cost limit applies to the run: its own, or one of a parent run."""
        return self.limit_usd is not None or (self.above is not None and self.above.is_limited)

    @contextmanager
    def call(
        self,
        projected: Projection,
        *,
        purpose: str,
        model: str,
        noted: Mapping[str, Value] | None = None,
        is_current: bool = False,
    ) -> Iterator[ModelCall]:
        """Admit a call within the cost limits, and report its start and its end, as events and in a span.

        Its possible cost is reserved meanwhile, so that parallel calls count.

        Args:
            noted: further attributes of the span.
            is_current: see ``TraceSpan``.

        Raises:
            LimitError: a limit is reached, the call may exceed it, or a price is unknown.
        """
        # No await until the cost is held below, so two parallel calls cannot both take the last of a limit.
        self._refuse(projected, "this turn")
        meters = self._line()
        held = projected.cost_usd or 0.0
        for meter in meters:
            meter._held_usd += held
        about = model_attributes(model)
        self._last_id = (self._last_id + 1) % (1 << 32)
        named = f"{self._last_id:08x}"
        attributes = {
            "gen_ai.operation.name": "chat",
            **about,
            "gen_ai.conversation.id": self.session or None,
            "zeus.purpose": purpose,
            "zeus.call.id": named,
            **(noted or {}),
        }
        span = TraceSpan(f"chat {about['gen_ai.request.model']}", attributes, "CLIENT", is_current=is_current)
        with span:
            call, error = ModelCall(named, span), ""
            self.notify(ModelCallStarted(call.id, purpose, model))
            try:
                yield call
            except BaseException as failure:
                error = _code(failure)
                raise
            finally:
                # Also after a cancellation: a reservation that stays would lower the limit for good.
                for meter in meters:
                    meter._held_usd -= held
                seconds = round(time.monotonic() - call.started, 4)
                reason = "" if error else call.finish_reason
                self.notify(ModelCallEnded(call.id, purpose, model, seconds, reason, error))
                if span.is_recording:
                    span.note(_outcome(call))
                usage = call.usage or Usage()
                record_model_call(
                    model,
                    seconds,
                    input_tokens=usage.input_tokens,
                    output_tokens=usage.output_tokens,
                    cost_usd=call.cost_usd,
                    error=error,
                )

    def _refuse(self, call: Projection, whose: str) -> None:
        if self.limit_usd is not None:
            if self.unpriced:
                raise LimitError(
                    f"limits.max_cost_usd = {self.limit_usd:g} cannot be kept: the price of a model is unknown",
                    remedy="Set its prices under profiles.models, or remove limits.max_cost_usd; then use --continue.",
                )
            spent = self.before_usd + (self.totals.cost_usd or 0.0) + self._held_usd
            refuse_call(spent, self.limit_usd, call, whose=whose)
        if self.above is not None:
            self.above._refuse(call, "the run that this agent works for")

    # This meter and those of all parent runs.
    def _line(self) -> list[UsageMeter]:
        return [self, *([] if self.above is None else self.above._line())]

    def count(
        self,
        call: ModelCall,
        response: ModelResponse,
        input_tokens: Callable[[], int],
        profile: ModelProfile | None = None,
    ) -> Counted:
        """Add a call that is answered; usage that the provider does not report credibly is estimated.

        Args:
            input_tokens: counts the request's tokens; called only for an estimate.
            profile: the prices of the model that answered, if it is not the running one.
        """
        call.finish_reason = response.finish_reason
        usage, cost = believed(response.usage), response.cost_usd
        estimated = usage is None
        if usage is None:
            cost = cost if response.usage is None else None  # a cost computed from wrong usage is wrong too
            usage = Usage(input_tokens(), self.counter.message(response.message))
        if cost is None:
            cost = cost_usd(profile or self.profile, usage)
        if estimated and cost and not self._told:
            self._told = True
            self.notify(Notice("usage_unknown", _UNKNOWN))
        call.model, call.usage, call.cost_usd = response.model, usage, cost
        self._add(call, usage, cost, estimated=estimated)
        return Counted(None if estimated else usage, cost, usage)

    def notify(self, event: Event) -> None:
        """Emit an event of the run; nothing in a simulation."""
        if self.emit is not None:
            self.emit(event)

    def _add(self, call: ModelCall, usage: Usage, cost: float | None, *, estimated: bool) -> None:
        # From here on the sum is too low for ever, so a limit can no longer be kept.
        self.unpriced = self.unpriced or cost is None
        self.totals.add(usage, cost)
        if self.above is not None:
            self.above._add(call, usage, cost, estimated=estimated)
        self.notify(
            TokenUsage(
                call=call.id,
                prompt_tokens=usage.input_tokens,
                completion_tokens=usage.output_tokens,
                cached_tokens=usage.cache_read_tokens,
                cache_write_tokens=usage.cache_write_tokens,
                cost_usd=cost,
                estimated=estimated,
            )
        )

    def follow(self, profile: ModelProfile, counter: Counter) -> None:
        """Count for another model of the chain from now on."""
        # The other model has cached nothing of the last request.
        self.profile, self.counter, self.asked = profile, counter, None

    def take_policies(self) -> Totals:
        """The usage of policies since the last call of this method."""
        used, self.policies = self.policies, Totals()
        return used


class Metered:
    """A model for a policy's own calls: counted, but not part of the user's stream.

    Args:
        model: the model.
        meter: counts its calls.
        profile: its prices.
    """

    def __init__(self, model: Model, meter: UsageMeter, profile: ModelProfile) -> None:
        self._model = model
        self._meter = meter
        self._profile = profile

    @property
    def name(self) -> str:
        return self._model.name

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        projected = self._projection(request)
        with self._meter.call(projected, purpose=request.purpose, model=self.name) as call:
            async for piece in self._model.stream(request):
                call.note_piece()
                if isinstance(piece, ModelResponse):
                    counted = self._meter.count(call, piece, lambda: self._tokens(request), self._profile)
                    # Before the piece is passed on: its receiver may stop reading at the last one.
                    self._meter.policies.add(counted.tokens, counted.cost_usd)
                yield piece

    def _projection(self, request: ModelRequest) -> Projection:
        # Only a limit needs the count, and to count a request costs time.
        if not self._meter.is_limited:
            return Projection(0, 0, None)
        most = request.settings.get("max_tokens")
        return projection(self._profile, self._tokens(request), most if isinstance(most, int) else 0)

    def _tokens(self, request: ModelRequest) -> int:
        return request_tokens(self._meter.counter, request)


def _outcome(call: ModelCall) -> Mapping[str, Value]:
    """The attributes of the span of a call that has ended."""
    usage = call.usage
    if usage is None:
        return {}
    return {
        "gen_ai.response.model": call.model or None,
        "gen_ai.response.finish_reasons": [call.finish_reason],
        "gen_ai.response.time_to_first_chunk": call.first_piece_seconds,
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read_tokens or None,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens or None,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens or None,
        "zeus.cost_usd": call.cost_usd,
    }


def _code(failure: BaseException) -> str:
    """The code of the error that ended a call."""
    if isinstance(failure, ZeusError | CancelledError | GeneratorExit):
        return error_type(failure)
    return "internal"
