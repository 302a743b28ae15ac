"""Checks that each model of a config can reason as the config asks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from zeus_runtime.models.reasoning import misfits, takes_budget
from zeus_runtime.plan.models import most_answer_tokens

if TYPE_CHECKING:
    from zeus_runtime.config import Diagnostic
    from zeus_runtime.models.profiles import ModelProfile
    from zeus_runtime.plan.components import PlannedComponent
    from zeus_runtime.plan.validated import Checked


def reasoning_refused(
    checked: Checked, chain: Sequence[tuple[PlannedComponent, ModelProfile]]
) -> Iterator[Diagnostic]:
    """Why the models of a config cannot reason as ``reasoning`` says."""
    asked = checked.config.reasoning
    if asked is None:
        return
    if asked.effort is None and asked.budget_tokens is None:
        yield checked.diagnostic(
            "reasoning",
            "this says nothing about reasoning",
            ("reasoning",),
            hint="write `effort` or `budget_tokens`, or remove it",
        )
        return
    found = False
    for component, profile in chain:
        options = component.options
        for key, message, hint in misfits(asked, profile, options, most_answer_tokens(options, profile)):
            found = True
            path = ("reasoning", key) if key else ("reasoning",)
            yield checked.diagnostic("reasoning", message, path, hint=hint)
    if found or None in (asked.effort, asked.budget_tokens):
        return
    budgeted = [takes_budget(profile) for _, profile in chain]
    if all(budgeted) or not any(budgeted):
        key = "effort" if all(budgeted) else "budget_tokens"
        reason = "each model gets the budget" if all(budgeted) else "no model takes a budget"
        yield checked.diagnostic(
            "reasoning", f"{key} has no effect: {reason}", ("reasoning", key), hint=f"remove {key}"
        )
