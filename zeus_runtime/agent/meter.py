"""What a run uses: every model call counted once, the agent's own and its policies'."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zeus_runtime.events import Event, TokenUsage
from zeus_runtime.models.interface import Model, ModelPiece, ModelRequest, ModelResponse
from zeus_runtime.models.profiles import ModelProfile, cost_usd

if TYPE_CHECKING:
    from zeus_runtime.models.interface import Usage


@dataclass
class Totals:
    """Used so far, in tokens and US dollars; ``cost_usd`` is None while no price was known."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = None

    def add(self, usage: Usage | None, cost: float | None) -> None:
        if cost is not None:
            self.cost_usd = (self.cost_usd or 0.0) + cost
        if usage is not None:
            self.prompt_tokens += usage.input_tokens
            self.completion_tokens += usage.output_tokens


@dataclass
class Meter:
    """One run's use.

    Args:
        profile: the prices of the running model.
        totals: all of the run.
        policies: of ``totals``, what policies' own calls took since ``take_policies``.
        emit: where usage events go.
        unpriced: whether a call's cost could not be told, so that no money limit can be kept.
        asked: the run's last request that was answered, as it was sent.
        above: where what is used counts too: a sub-agent's in its parent's.
        limit_usd: what the run may cost; None for any.
    """

    profile: ModelProfile
    totals: Totals = field(default_factory=Totals)
    policies: Totals = field(default_factory=Totals)
    emit: Callable[[Event], None] | None = None
    unpriced: bool = False
    asked: ModelRequest | None = field(default=None, repr=False)
    above: Meter | None = field(default=None, repr=False)
    limit_usd: float | None = None

    @property
    def spent_above(self) -> bool:
        """Whether a run that this one works for has spent its money."""
        above = self.above
        if above is None:
            return False
        spent = above.totals.cost_usd
        return above.spent_above or (
            above.limit_usd is not None
            and (above.unpriced or (spent is not None and spent >= above.limit_usd))
        )

    def count(self, response: ModelResponse, profile: ModelProfile | None = None) -> float | None:
        """Add a finished call.

        Args:
            profile: the prices of the model that answered, where it is not the running one.

        Returns:
            what it cost in US dollars, where a price is known.
        """
        usage, cost = response.usage, response.cost_usd
        if cost is None and usage is not None:
            cost = cost_usd(profile or self.profile, usage)
        self._add(usage, cost)
        return cost

    def _add(self, usage: Usage | None, cost: float | None) -> None:
        self.unpriced = self.unpriced or cost is None
        self.totals.add(usage, cost)
        if self.above is not None:
            self.above._add(usage, cost)
        if usage is not None and self.emit is not None:
            self.emit(
                TokenUsage(
                    prompt_tokens=usage.input_tokens,
                    completion_tokens=usage.output_tokens,
                    cached_tokens=usage.cache_read_tokens,
                    cache_write_tokens=usage.cache_write_tokens,
                    cost_usd=cost,
                )
            )

    def take_policies(self) -> Totals:
        """What policies used since this was asked last."""
        used, self.policies = self.policies, Totals()
        return used


class Metered:
    """A model whose calls are a policy's own: counted, and not in the user's stream.

    Args:
        model: the model.
        meter: where its calls are counted.
        profile: its prices.
    """

    def __init__(self, model: Model, meter: Meter, profile: ModelProfile) -> None:
        self._model = model
        self._meter = meter
        self._profile = profile

    @property
    def name(self) -> str:
        return self._model.name

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        async for piece in self._model.stream(request):
            if isinstance(piece, ModelResponse):
                cost = self._meter.count(piece, self._profile)
                self._meter.policies.add(piece.usage, cost)
            yield piece
