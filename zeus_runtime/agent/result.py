"""How a run ended, for programs that wait for its end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zeus_runtime.errors import RunError
from zeus_runtime.events import RunCompleted, RunFailed

if TYPE_CHECKING:
    from zeus_runtime.events import Event


@dataclass(frozen=True)
class RunResult:
    """What a finished run gives back; money in US dollars, None where no price is known.

    ``finish_reason`` is ``length`` where the answer was cut at the model's output limit.
    """

    session: str
    answer: str
    steps: int
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None
    finish_reason: str = "stop"


class FailedRunError(RunError):
    """A run that ``Agent.run`` began did not complete; ``event`` says how and ``session`` goes on."""

    def __init__(self, event: RunFailed) -> None:
        super().__init__(event.message)
        self.event = event
        self.session = event.session
        self.code = event.code
        self.exit_code = event.exit_code


def result_of(ending: Event | None) -> RunResult:
    """What a run's terminal event gives back.

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
    )
