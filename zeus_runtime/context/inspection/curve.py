"""Tokens over the steps of a session, for a plot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zeus_runtime.context.inspection.trace import Trace


@dataclass(frozen=True)
class Curve:
    """Tokens over steps.

    Args:
        title: the heading above the curve.
        steps: the numbers of the steps.
        stacks: source to its tokens at each step; one entry is drawn as a line.
        marks: step to what happened there.
        limit_tokens: the window; 0 for none.
    """

    title: str
    steps: Sequence[int]
    stacks: Mapping[str, Sequence[int]]
    marks: Mapping[int, str] = field(default_factory=dict)
    limit_tokens: int = 0


def session_curve(trace: Trace) -> Curve:
    """A session's tokens over its steps, stacked by source."""
    steps = [step for step in trace.steps if step.cause != "compact"]
    sources = list(dict.fromkeys(source for step in steps for source in step.by_source))
    stacks: dict[str, list[int]] = {"prompt and tools": [step.fixed_tokens for step in steps]}
    stacks.update({source: [step.by_source.get(source, 0) for step in steps] for source in sources})
    marks = {
        step.number: ", ".join(
            dict.fromkeys(f"{each.policy} {each.kind}" for each in step.decisions if each.admitted)
        )
        for step in trace.steps
        if any(each.admitted and each.kind != "pin" for each in step.decisions)
    }
    limit = steps[-1].input_limit_tokens if steps else 0
    return Curve(trace.session, [step.number for step in steps], stacks, marks, limit)
