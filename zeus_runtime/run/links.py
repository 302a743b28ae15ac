"""The open models of a plan, and those of a chain as one run asks them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from zeus_runtime.models.chain import Circuit, with_first_token
from zeus_runtime.models.errors import ModelError
from zeus_runtime.models.interface import Retrying
from zeus_runtime.models.retry import with_retry

if TYPE_CHECKING:
    from zeus_runtime.config.model import Breaker, MoveOn, Retry
    from zeus_runtime.models.interface import Model, ModelPiece, ModelRequest
    from zeus_runtime.models.profiles import ModelProfile
    from zeus_runtime.plan.models import PlannedModel


@dataclass(frozen=True)
class OpenModel:
    """A model of a plan, opened once for an agent.

    Args:
        planned: its plan.
        patient: the model with all tries of ``retry``.
        hurried: the model with the tries and the time limit that a chain sets while another one is left.
        circuit: its circuit breaker, which all sessions and sub-agents of the agent share.
    """

    planned: PlannedModel
    patient: Model
    hurried: Model
    circuit: Circuit


class Circuits:
    """The circuit breakers of an agent: models with the same options share one."""

    def __init__(self) -> None:
        self._circuits: list[tuple[object, Circuit]] = []

    def of(self, planned: PlannedModel, breaker: Breaker) -> Circuit:
        """The circuit breaker of a model."""
        key = (planned.component.name, planned.component.value, breaker)
        # A list and not a dict: options may hold lists, which cannot be keys. There are few.
        for known, circuit in self._circuits:
            if known == key:
                return circuit
        circuit = Circuit(breaker)
        self._circuits.append((key, circuit))
        return circuit


def open_models(
    models: Sequence[PlannedModel], written: object, retry: Retry, circuits: Circuits
) -> tuple[OpenModel, ...]:
    """The open models of a plan, the preferred one first.

    Args:
        written: the config's value that names them; a ``ModelChain`` for a chain.

    Raises:
        ConfigError: the options of one do not fit.
        MissingError: the code of one cannot be imported.
    """
    from zeus_runtime.config.model import Breaker, ModelChain

    chain, opened = written if isinstance(written, ModelChain) else None, []
    for planned in models:
        model: Model = planned.component.create(planned.context)
        patient = hurried = with_retry(model, retry)
        if chain is not None:
            few = replace(retry, attempts=min(retry.attempts, chain.tries))
            hurried = with_first_token(with_retry(model, few), chain.first_token_seconds)
        circuit = circuits.of(planned, Breaker() if chain is None else chain.breaker)
        opened.append(OpenModel(planned, patient, hurried, circuit))
    return tuple(opened)


class ChainedModel:
    """A model of a chain in one run.

    Args:
        opened: the open model.
        wrapped: wraps its two forms for this run.

    Attributes:
        has_next: whether another model is left that could answer instead.
    """

    def __init__(self, opened: OpenModel, wrapped: Callable[[Model], Model]) -> None:
        self.planned = opened.planned
        self.circuit = opened.circuit
        self.has_next = True
        self._patient = wrapped(opened.patient)
        self._hurried = wrapped(opened.hurried)

    @property
    def name(self) -> str:
        return self._patient.name

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        return (self._hurried if self.has_next else self._patient).stream(request)


class PolicyModel:
    """The models for a part of the work (``models``) in one run: if one fails, the next one answers.

    Args:
        links: the models, the preferred one first.
        move_on: the errors after which the next one answers.
        metered: counts the calls of one.
    """

    def __init__(
        self,
        links: Sequence[ChainedModel],
        move_on: Sequence[MoveOn],
        metered: Callable[[ChainedModel], Model],
    ) -> None:
        self._links = [(each, metered(each)) for each in links]
        self._move_on = move_on

    @property
    def name(self) -> str:
        return self._links[0][0].name

    @property
    def profile(self) -> ModelProfile:
        """The limits and prices of the preferred model."""
        return self._links[0][0].planned.profile

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        left = list(self._links)
        while True:
            # If all circuits are open, the preferred model: to ask none would fail for certain.
            link, metered = next((each for each in left if each[0].circuit.admits()), left[0])
            left.remove((link, metered))
            link.has_next = any(not each.circuit.is_open for each, _ in left)
            try:
                async for piece in metered.stream(request):
                    yield piece
            except ModelError as error:
                limit = link.planned.profile.max_input_tokens
                admitted = left_after(error, link, self._move_on, [each for each, _ in left], limit)
                left = [each for each in left if each[0] in admitted]
                if not left:
                    raise
                # Tells the reader to drop the pieces that the failed model has given already.
                yield Retrying(1, error.message, 0.0)
            else:
                link.circuit.answered()
                return


def left_after(
    error: ModelError,
    link: ChainedModel,
    move_on: Sequence[MoveOn],
    left: Sequence[ChainedModel],
    limit_tokens: int,
) -> Sequence[ChainedModel]:
    """The models of ``left`` that may answer after ``error`` of ``link``, whose circuit counts it.

    A request that does not fit into ``limit_tokens`` is only for a model with a larger window.
    """
    # The provider works, only the request is too large.
    if error.kind == "context_overflow":
        link.circuit.answered()
        left = [each for each in left if each.planned.profile.max_input_tokens > limit_tokens]
    elif error.kind in move_on:
        link.circuit.failed()
    return left if error.kind in move_on else ()
