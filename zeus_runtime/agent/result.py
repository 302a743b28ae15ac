"""The end of a run, for programs that wait for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zeus_runtime.errors import RunError
from zeus_runtime.events import RunCompleted, RunFailed

if TYPE_CHECKING:
    from zeus_runtime.events import Event
    from zeus_runtime.plan.output import PlannedOutput


@dataclass(frozen=True)
class RunResult:
    """The result of a completed run; the cost is in US dollars, or None where no price is known.

    ``finish_reason`` is ``length`` where the answer was cut at the model's output limit. ``output`` is the answer's
    JSON value if the config has ``output``, and an instance of the model where ``output.schema`` names one.
    """

    session: str
    answer: str
    steps: int
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None
    finish_reason: str = "stop"
    output: Any = None


class FailedRunError(RunError):
    """A run that ``Agent.run`` began did not complete; ``event`` has the reason, and ``session`` can be continued."""

    def __init__(self, event: RunFailed) -> None:
        super().__init__(event.message)
        self.event = event
        self.session = event.session
        self.code = event.code
        self.exit_code = event.exit_code


def result_of(ending: Event | None, form: PlannedOutput | None = None) -> RunResult:
    """The result of a run, from its terminal event.

    Args:
        form: the form of the agent's answers.

    Raises:
        FailedRunError: the run did not complete.
    """
    if isinstance(ending, RunFailed):
        raise FailedRunError(ending)
    assert isinstance(ending, RunCompleted)
    return RunResult(
        ending.session,
        ending.answer,
        ending.steps,
        ending.prompt_tokens,
        ending.completion_tokens,
        ending.cost_usd,
        ending.finish_reason,
        ending.output if form is None else form.typed(ending.output),
    )
