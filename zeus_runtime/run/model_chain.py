"""The models of a run: the one that answers, and the next one of the chain if it fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from zeus_runtime.cutting import cut_text
from zeus_runtime.events import Event, ModelChanged
from zeus_runtime.models.errors import ModelError
from zeus_runtime.run.links import left_after
from zeus_runtime.run.model_step import Answered, ModelStep

if TYPE_CHECKING:
    from zeus_runtime.context.ledger import StepRecord
    from zeus_runtime.middleware.protocol import Turn
    from zeus_runtime.run.resources import RunResources
    from zeus_runtime.run.transcript import Transcript

_LONGEST_REASON: Final = 300


class _Reason(NamedTuple):
    """Why a model of a chain is asked.

    Args:
        code: for spans, where no provider's message belongs.
        text: for the ledger and the user.
    """

    code: str
    text: str


_STAYS: Final = _Reason("stays", "it answered before in this turn")


class RunModels:
    """Asks the models of one run; without a chain there is one.

    A turn begins with the first model whose circuit is closed, and stays with the model that answered: another one has
    nothing cached. The ledger says which one did, so that a resumed run stays with it too.

    Args:
        turn: the session, the run and the prompt.
        resources: the resources of the run.
        transcript: the session's messages.
        emit: receives the events.

    Attributes:
        resources: the resources of the run for the model that is asked now.
        step: that model's calls.
    """

    def __init__(
        self, turn: Turn, resources: RunResources, transcript: Transcript, emit: Callable[[Event], None]
    ) -> None:
        self._turn = turn
        self._transcript = transcript
        self._emit = emit
        self._links = resources.chain
        self._rules = resources.chain_rules
        self._steps: dict[int, ModelStep] = {}
        self._index = -1
        self.resources = resources
        settled = self._settled_by(transcript.last_step)
        self._is_settled = settled is not None
        self._expected = settled or 0
        closed = (place for place, link in enumerate(self._links) if not link.circuit.is_open)
        self.step = self._use(next(closed, 0) if settled is None else settled)

    async def ask(self, cursor: int, run_id: str, steps: int) -> Answered:
        """The first answer that a model gives to the messages up to ``cursor``.

        Args:
            steps: how many steps the run has made.

        Raises:
            ModelError: no model answers; the ledger has an entry for each call.
        """
        if self._rules is None:
            return await self.step.ask(cursor, run_id, steps)
        left = self._order()
        reasons: dict[int, _Reason] = {}
        while True:
            index = self._take(left, reasons)
            link = self._links[index]
            # Told before the call, which may take long, and only if it is not the model that the user expects.
            if index != self._expected:
                former = self._expected
                reason = reasons[former].text if former in reasons else ""
                self._emit(ModelChanged(link.name, self._links[former].name, reason))
                self._expected, self._is_settled = index, False
            self.step = self._use(index)
            # Asked now: a circuit may have opened or closed since the last step, also by another session.
            link.has_next = any(not self._links[each].circuit.is_open for each in left)
            told = [(self._links[each].name, reason) for each, reason in reasons.items()]
            before = "; ".join(f"{name}: {reason.text}" for name, reason in told)
            why, codes = before, [f"{name}: {reason.code}" for name, reason in told]
            if index and not reasons:
                why, codes = _STAYS.text, [_STAYS.code]
            try:
                answered = await self.step.ask(cursor, run_id, steps, why, {"zeus.chain.why": codes or None})
            except ModelError as error:
                left = self._left_after(error, index, left)
                if not left:
                    raise (error.adding(f"before: {before}") if before else error) from error
                reasons[index] = _Reason(error.code, cut_text(error.message, _LONGEST_REASON))
                continue
            # Also when the answer is refused later: the circuit is about the provider.
            link.circuit.answered()
            self._is_settled = True
            return answered

    def _order(self) -> list[int]:
        """The places in the order in which the models are asked."""
        # The model that answered has the prefix in its cache, so it is asked before the preferred ones.
        first = [self._index] if self._is_settled else []
        return [*first, *(place for place in range(len(self._links)) if place not in first)]

    def _take(self, left: list[int], reasons: dict[int, _Reason]) -> int:
        """Take the next model: the first whose circuit is closed; if all are open, the first, since none is better."""
        for index in left:
            if self._links[index].circuit.admits():
                break
            failures = self._links[index].circuit.breaker.failures
            text = f"passed over after {failures} failed calls in a row"
            reasons.setdefault(index, _Reason("passed_over", text))
        else:
            index = left[0]
        reasons.pop(index, None)
        left.remove(index)
        return index

    def _left_after(self, error: ModelError, index: int, left: list[int]) -> list[int]:
        """The models that may still be asked after ``error``."""
        assert self._rules is not None
        links = [self._links[each] for each in left]
        admitted = left_after(error, self._links[index], self._rules.move_on, links, self.step.limit_tokens)
        return [each for each in left if self._links[each] in admitted]

    def _settled_by(self, step: StepRecord | None) -> int | None:
        """The place of the model that answered before in this turn, by the ledger."""
        if step is None or step.run_id != self._turn.run_id or step.error or step.cause != "turn":
            return None
        return next((place for place, link in enumerate(self._links) if link.name == step.model), None)

    def _use(self, index: int) -> ModelStep:
        if index == self._index:
            return self.step
        self._index = index
        if self._links:
            self.resources = self.resources.of(self._links[index])
            self.resources.follow(self.resources)
            # Other models count other tokens, so the cached view is of no use.
            self._transcript.recount(self.resources.counter)
        # Kept for the run: a step has learned its model's limit and margin.
        if index not in self._steps:
            self._steps[index] = ModelStep(self._turn, self.resources, self._transcript, self._emit)
        return self._steps[index]
