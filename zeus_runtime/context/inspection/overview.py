"""Every step of a session in short: the ledger as the page and a plot draw it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from zeus_runtime.context.inspection.composition import session_totals
from zeus_runtime.context.inspection.forecast import forecast
from zeus_runtime.context.inspection.trace import Trace
from zeus_runtime.context.ledger import StepRecord


def overview(trace: Trace) -> dict[str, Any]:
    """The steps of a session, their totals and a forecast, as JSON values."""
    return overview_of(trace.session, trace.steps, aside=trace.aside, problems=trace.problems)


def overview_of(
    name: str,
    steps: Sequence[StepRecord],
    *,
    aside: Collection[int] = (),
    problems: Sequence[str] = (),
) -> dict[str, Any]:
    """The same of a ledger alone, such as that of a session which was played again.

    Args:
        name: what the steps are of.
        aside: the numbers of the steps that a rollback set aside.
        problems: why the ledger may be incomplete.
    """
    expected = forecast([each for each in steps if each.number not in aside])
    return {
        "session": name,
        "steps": [in_short(each, aside=each.number in aside) for each in steps],
        "totals": asdict(session_totals(steps)),
        "forecast": None if expected is None else asdict(expected),
        "problems": list(problems),
    }


def in_short(step: StepRecord, *, aside: bool) -> Mapping[str, Any]:
    """A step without the texts that it sent."""
    return {
        "number": step.number,
        "run": step.run_id,
        "cursor": step.cursor,
        "model": step.model,
        "cause": step.cause,
        "input_limit_tokens": step.input_limit_tokens,
        "fixed_tokens": step.fixed_tokens,
        "by_source": dict(step.by_source),
        "sent_tokens": step.sent_tokens,
        "decisions": [asdict(each) for each in step.decisions],
        "usage": None if step.usage is None else asdict(step.usage),
        "cost_usd": step.cost_usd,
        "policy_cost_usd": step.policy_cost_usd,
        "duration_ms": step.duration_ms,
        "error": step.error,
        "aside": aside,
    }
