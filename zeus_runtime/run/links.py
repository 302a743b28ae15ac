"""The open models of a plan, and those of a chain as one run asks them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from zeus_runtime.models.chain import Circuit, with_first_token
from zeus_runtime.models.retry import with_retry

if TYPE_CHECKING:
    from zeus_runtime.config.model import Breaker
    from zeus_runtime.models.interface import Model, ModelPiece, ModelRequest
    from zeus_runtime.plan.models import PlannedModel
    from zeus_runtime.plan.plan import Plan


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
        for known, circuit in self._circuits:
            if known == key:
                return circuit
        circuit = Circuit(breaker)
        self._circuits.append((key, circuit))
        return circuit


def open_models(plan: Plan, circuits: Circuits) -> tuple[OpenModel, ...]:
    """The models of a plan, the preferred one first.

    Raises:
        ConfigError: the options of one do not fit.
        MissingError: the code of one cannot be imported.
    """
    from zeus_runtime.config.model import Breaker

    chain, retry, opened = plan.config.chain, plan.config.retry, []
    for planned in plan.models:
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
