"""Targeted evaluations of a config: what an agent must still know and do after its context was compacted.

They run offline, with a scripted model behind a provider that counts exactly and keeps its window.
docs/how-to/evals.md explains each. Each name is loaded at first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zeus_runtime.testing.evals.evaluation import EVALUATIONS as EVALUATIONS
    from zeus_runtime.testing.evals.evaluation import evaluate as evaluate
    from zeus_runtime.testing.evals.report import Check as Check
    from zeus_runtime.testing.evals.report import EvaluationFinding as EvaluationFinding
    from zeus_runtime.testing.evals.report import Report as Report
    from zeus_runtime.testing.evals.sessions import compactions_of as compactions_of
    from zeus_runtime.testing.evals.stress import stressed as stressed
    from zeus_runtime.testing.evals.trajectories import drift as drift

_ROOMS = {
    "Check": "report",
    "EVALUATIONS": "evaluation",
    "EvaluationFinding": "report",
    "Report": "report",
    "compactions_of": "sessions",
    "drift": "trajectories",
    "evaluate": "evaluation",
    "stressed": "stress",
}

__all__ = [*sorted(_ROOMS)]


def __getattr__(name: str) -> Any:
    room = _ROOMS.get(name)
    if room is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{room}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
