"""The cost limit of a turn: its cost so far, over every resume, and the possible cost of the next call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from zeus_runtime.errors import LimitError
from zeus_runtime.models.interface import Usage
from zeus_runtime.models.profiles import cost_usd

if TYPE_CHECKING:
    from zeus_runtime.context.ledger import StepRecord
    from zeus_runtime.memory.service import MemoryService
    from zeus_runtime.models.profiles import ModelProfile
    from zeus_runtime.store.thread_log import ThreadLog
    from zeus_runtime.store.threads import Thread

_RESUME = (
    "Raise limits.max_cost_usd and use --continue, or give a new prompt: each prompt has a limit of its own."
)


@dataclass(frozen=True)
class Projection:
    """The possible cost of a model call, before it is made.

    Args:
        input_tokens: as counted.
        output_tokens: the most that the request asks for; 0 where it sets no limit.
        cost_usd: of both, in US dollars; None where no price is known.
    """

    input_tokens: int
    output_tokens: int
    cost_usd: float | None


def projection(
    profile: ModelProfile, input_tokens: int, output_tokens: int, *, cached_tokens: int = 0
) -> Projection:
    """The possible cost of a call at the profile's prices.

    Args:
        cached_tokens: those of ``input_tokens`` that the provider has in its cache.
    """
    usage = Usage(input_tokens, output_tokens, min(cached_tokens, input_tokens))
    return Projection(input_tokens, output_tokens, cost_usd(profile, usage))


def cached_before(step: StepRecord | None, model: str) -> int:
    """The tokens of the last request that are still in the provider's cache; 0 if it does not report its cache."""
    usage = None if step is None or step.model != model else step.usage
    return (
        usage.input_tokens if usage is not None and usage.cache_read_tokens + usage.cache_write_tokens else 0
    )


def refuse_call(spent_usd: float, limit_usd: float, call: Projection, *, whose: str = "this turn") -> None:
    """Refuse a call that would break the cost limit.

    Raises:
        LimitError: the limit is reached, or the call may exceed it.
    """
    if spent_usd >= limit_usd:
        raise LimitError(
            f"{whose} cost ${spent_usd:.4f} and reached limits.max_cost_usd = {limit_usd:g}", remedy=_RESUME
        )
    if call.cost_usd is None or spent_usd + call.cost_usd <= limit_usd:
        return
    answer = f" and up to {call.output_tokens:,} for the answer" if call.output_tokens else ""
    raise LimitError(
        f"the next model call may cost ${call.cost_usd:.4f} ({call.input_tokens:,} tokens{answer}); with the"
        f" ${spent_usd:.4f} that {whose} cost so far this exceeds limits.max_cost_usd = {limit_usd:g}",
        remedy=_RESUME,
    )


async def spent_before(
    log: ThreadLog, thread: Thread, run_id: str | None, *, memory: MemoryService | None = None
) -> float:
    """The cost of a turn so far, in US dollars, including its sub-agents, summaries and extractions of memories.

    An entry of the ledger that cannot be read counts as the dearest one of the turn that can.

    Args:
        run_id: the turn's, which a resumed turn keeps; None for the last turn.
        memory: whose extractions count; None for an agent without one.
    """
    from zeus_runtime.run.stored_thread import step_of
    from zeus_runtime.store.session_tree import helpers_of

    steps = [step_of(entry) for entry in await log.steps(thread)]
    run_id = run_id or next((step.run_id for step in reversed(steps) if step.run_id), None)
    if run_id is None:
        return 0.0
    own = _of_turn(steps, run_id)
    for helper in await helpers_of(log, thread, run_id):
        own += [step_of(entry) for entry in await log.steps(helper)]
    # Extractions run after the turn's end, and have no entry in the ledger.
    extracted = 0.0
    cursors = [step.cursor for step in own if step.run_id == run_id]
    if cursors and memory is not None and memory.is_in_database:
        extracted = await memory.batches.spent(thread.session, min(cursors))
    costs = [(step.cost_usd or 0.0) + (step.policy_cost_usd or 0.0) for step in own if step.run_id]
    return extracted + sum(costs) + (len(own) - len(costs)) * max(costs, default=0.0)


def _of_turn(steps: Sequence[StepRecord], run_id: str) -> list[StepRecord]:
    """The entries of a turn, and those beside them that cannot be read, whose turn is not known."""
    runs = [step.run_id for step in steps]
    before = _filled(runs)
    after = reversed(_filled(runs[::-1]))
    return [step for step, *beside in zip(steps, before, after, strict=True) if run_id in beside]


def _filled(runs: Sequence[str]) -> list[str]:
    """Each run, or the last one before it where it is empty."""

    def known(last: str, each: str) -> str:
        return each or last

    return list(accumulate(runs, known))
