"""The content of one step's request, by section and source, and the savings of policies up to that step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zeus_runtime.context.inspection.trace import Trace
from zeus_runtime.context.ledger import PolicyDecision, StepRecord
from zeus_runtime.models.pictures import KEY as PICTURES
from zeus_runtime.models.pictures import pictures_of

if TYPE_CHECKING:
    from zeus_runtime.context.items import Item
    from zeus_runtime.context.tokens import Counter


@dataclass(frozen=True)
class Row:
    """One line of a composition.

    Args:
        part: ``section``, ``tool schema``, ``messages`` or ``pictures`` (of messages, whose row excludes them).
        name: the section, the tool, or the messages' source.
        survival: ``pinned``, ``replayable`` or ``normal``.
        count: the number of messages or pictures; 1 for the others.
        tokens: the tokens of all of them.
        share: their share of the whole request.
    """

    part: str
    name: str
    survival: str
    count: int
    tokens: int
    share: float


@dataclass(frozen=True)
class PolicyTotals:
    """One policy's edits up to a step: how many were admitted and refused, and the tokens that views lost by them."""

    policy: str
    admitted: int
    refused: int
    saved_tokens: int


@dataclass(frozen=True)
class SessionTotals:
    """Totals of all steps up to one, as reported; costs where prices are known.

    The calls of policies themselves (summaries) are only in ``policy_tokens`` and ``policy_cost_usd``.
    """

    steps: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    cost_usd: float | None
    policy_tokens: int
    policy_cost_usd: float | None


@dataclass(frozen=True)
class Composition:
    """The content of one step's request.

    Args:
        step: the ledger's entry.
        rows: tokens by part, sections first; as counted, before anchoring to the provider's report.
        policies: each policy's totals up to here.
        totals: the session's totals up to here.
        files: the files that each section was made from, by section.
    """

    step: StepRecord
    rows: Sequence[Row]
    policies: Sequence[PolicyTotals]
    totals: SessionTotals
    files: Mapping[str, Sequence[str]] = field(default_factory=dict)


def composition(trace: Trace, number: int | None = None) -> Composition:
    """The content of the request of step ``number``; of the last one by default.

    Raises:
        UsageError: the step does not exist, or it cannot be rebuilt.
    """
    step = trace.step(number)
    parts: list[tuple[str, str, str, int, int]] = []
    fixed = trace.fixed(step)
    if fixed is None:
        parts.append(("section", "(prompt and tools)", "pinned", 1, step.fixed_tokens))
    else:
        parts += [("section", name, "pinned", 1, part.tokens) for name, part in fixed.sections.items()]
        parts += [("tool schema", name, "pinned", 1, part.tokens) for name, part in fixed.tools.items()]
        # The parts are counted one by one; the provider's framing around all of them is the rest.
        framing = fixed.tokens - sum(tokens for *_, tokens in parts)
        if framing:
            parts.append(("framing", "", "pinned", 1, framing))
    grouped: dict[tuple[str, str, str], tuple[int, int]] = {}
    for item in trace.view(step).items():
        pictures = pictures_of(item.message)
        seen = _picture_tokens(item, trace.counter) if pictures else 0
        for part, number_of, of_it in (
            ("messages", 1, item.tokens - seen),
            ("pictures", len(pictures), seen),
        ):
            if number_of:
                count, tokens = grouped.get((part, item.source, item.survival), (0, 0))
                grouped[part, item.source, item.survival] = count + number_of, tokens + of_it
    parts += [
        (*group, count, tokens)
        for group, (count, tokens) in sorted(grouped.items(), key=lambda entry: -entry[1][1])
    ]
    whole = sum(tokens for *_, tokens in parts) or 1
    rows = [Row(*each, share=each[-1] / whole) for each in parts]
    until = [each for each in trace.steps if each.number <= step.number]
    return Composition(step, rows, policy_totals(until), session_totals(until), _files(trace, step))


def _files(trace: Trace, step: StepRecord) -> Mapping[str, Sequence[str]]:
    """The files that the step's sections were made from, by section."""
    fixed = trace.fixed(step)
    named = {
        name: [str(each["path"]) for each in trace.sources(step, name) if "path" in each]
        for name in (() if fixed is None else fixed.sections)
    }
    return {name: paths for name, paths in named.items() if paths}


def _picture_tokens(item: Item, counter: Counter | None) -> int:
    """The tokens of a message's pictures."""
    if counter is None:
        return 0
    kept = {name: value for name, value in item.message.additional_kwargs.items() if name != PICTURES}
    return item.tokens - counter.message(item.message.model_copy(update={"additional_kwargs": kept}))


def policy_totals(steps: Sequence[StepRecord]) -> Sequence[PolicyTotals]:
    """The totals of each policy in ``steps``, in the order of its first decision."""
    found: dict[str, list[int]] = {}
    for decision in (each for step in steps for each in step.decisions):
        # The runtime's entry for an overflow, not an edit of a policy.
        if decision.kind == "overflow":
            continue
        totals = found.setdefault(decision.policy, [0, 0, 0])
        if decision.admitted:
            totals[0] += decision.count
            totals[2] += decision.tokens_before - decision.tokens_after
        else:
            totals[1] += decision.count
    return [PolicyTotals(policy, *totals) for policy, totals in found.items()]


def session_totals(steps: Sequence[StepRecord]) -> SessionTotals:
    """The totals of ``steps``."""
    usages = [step.usage for step in steps if step.usage is not None]
    return SessionTotals(
        steps=len(steps),
        input_tokens=sum(usage.input_tokens for usage in usages),
        output_tokens=sum(usage.output_tokens for usage in usages),
        cache_read_tokens=sum(usage.cache_read_tokens for usage in usages),
        cache_write_tokens=sum(usage.cache_write_tokens for usage in usages),
        cost_usd=_sum(step.cost_usd for step in steps),
        policy_tokens=sum(step.policy_tokens for step in steps),
        policy_cost_usd=_sum(step.policy_cost_usd for step in steps),
    )


def _sum(costs: Iterable[float | None]) -> float | None:
    known = [cost for cost in costs if cost is not None]
    return sum(known) if known else None


def decisions_of(step: StepRecord) -> Sequence[PolicyDecision]:
    """The decisions of ``step``, admitted edits first."""
    return sorted(step.decisions, key=lambda decision: not decision.admitted)
