"""Tokens over steps, of a session and of one that was played again."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zeus_runtime.agent.backtest import Replayed
    from zeus_runtime.cli.context.plots import Curve
    from zeus_runtime.context.inspection import Trace


def session_curve(trace: Trace) -> Curve:
    """A session's tokens over its steps, stacked by source."""
    from zeus_runtime.cli.context.plots import Curve

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


def replay_curve(played: Replayed) -> Curve:
    """One played session's tokens over its steps."""
    from zeus_runtime.cli.context.plots import Curve

    turns = [call for call in played.calls if call.purpose == "turn" and not call.overflow]
    sources = list(dict.fromkeys(source for call in turns for source in call.sources or ()))
    stacks = {source: [(call.sources or {}).get(source, 0) for call in turns] for source in sources}
    marks = {
        step.number: ", ".join(
            dict.fromkeys(f"{each.policy} {each.kind}" for each in step.decisions if each.admitted)
        )
        for step in played.steps
        if any(each.admitted and each.kind in ("summarize", "drop_before") for each in step.decisions)
    }
    limit = played.steps[-1].input_limit_tokens if played.steps else 0
    title = f"{played.outcome.session} · {played.outcome.policy}"
    return Curve(title, range(1, len(turns) + 1), stacks, marks, limit)
