"""How long the window will last and what a step will cost, from the session's own ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from zeus_runtime.context.inspection.trace import REMOVING
from zeus_runtime.context.ledger import StepRecord

COMPACTION, WINDOW = "compaction", "window"


@dataclass(frozen=True)
class Forecast:
    """What the next steps will do, if they go on as before.

    Args:
        until: ``compaction``, if the session had one, else ``window`` (the input limit).
        limit_tokens: the size of a request at which that happens: the median of its compactions, or the input limit.
        now_tokens: the size of the last request.
        growth_tokens: the median growth of a request from one step to the next, compactions left out.
        steps: the steps until then; None if requests do not grow, or too few are known.
        cost_p50_usd, cost_p90_usd: quantiles of a step's cost, its policies' calls included; None without known prices.
    """

    until: str
    limit_tokens: int
    now_tokens: int
    growth_tokens: int
    steps: int | None
    cost_p50_usd: float | None
    cost_p90_usd: float | None


def forecast(steps: Sequence[StepRecord]) -> Forecast | None:
    """The forecast from a session's steps; None without a step."""
    turns = [step for step in steps if step.cause != "compact" and not step.error]
    if not turns:
        return None
    sizes = [step.sent_tokens for step in turns]
    compacted = [_is_compaction(step) for step in turns]
    growths = [
        now - before
        for before, now, made_room in zip(sizes, sizes[1:], compacted[1:], strict=False)
        if not made_room
    ]
    before = [size for size, made_room in zip(sizes, compacted[1:], strict=False) if made_room]
    growth = round(quantile(growths, 0.5)) if growths else 0
    limit = round(quantile(before, 0.5)) if before else turns[-1].input_limit_tokens
    left = max(0, limit - sizes[-1])
    costs = [
        (step.cost_usd or 0.0) + (step.policy_cost_usd or 0.0) for step in turns if step.cost_usd is not None
    ]
    return Forecast(
        COMPACTION if before else WINDOW,
        limit,
        sizes[-1],
        growth,
        ceil(left / growth) if growth > 0 and limit else None,
        quantile(costs, 0.5) if costs else None,
        quantile(costs, 0.9) if costs else None,
    )


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which that share of them lies, interpolated."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def _is_compaction(step: StepRecord) -> bool:
    return any(each.admitted and each.kind in REMOVING for each in step.decisions)
