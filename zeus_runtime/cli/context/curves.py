"""Tokens over steps of a session that was played again."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zeus_runtime.agent.backtest import Replayed
    from zeus_runtime.context.inspection import Curve


def replay_curve(played: Replayed) -> Curve:
    """One played session's tokens over its steps."""
    from zeus_runtime.context.inspection import Curve

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
