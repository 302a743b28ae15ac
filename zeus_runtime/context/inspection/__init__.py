"""What a recorded context contained and why, from the log, the edits and the ledger alone."""

from __future__ import annotations

from zeus_runtime.context.inspection.composition import (
    Composition,
    PolicyTotals,
    Row,
    SessionTotals,
    composition,
    decisions_of,
    policy_totals,
    session_totals,
)
from zeus_runtime.context.inspection.difference import Difference, StepDifference, difference
from zeus_runtime.context.inspection.excerpts import around, excerpt
from zeus_runtime.context.inspection.explanation import Explanation, explanation
from zeus_runtime.context.inspection.forecast import Forecast, forecast
from zeus_runtime.context.inspection.missing import TextPlace, why_missing
from zeus_runtime.context.inspection.overview import in_short, overview, overview_of
from zeus_runtime.context.inspection.trace import Branch, Fate, Trace

__all__ = [
    "Branch",
    "StepDifference",
    "Composition",
    "Difference",
    "Explanation",
    "Fate",
    "Forecast",
    "TextPlace",
    "PolicyTotals",
    "Row",
    "SessionTotals",
    "Trace",
    "around",
    "composition",
    "decisions_of",
    "difference",
    "excerpt",
    "explanation",
    "forecast",
    "in_short",
    "overview",
    "overview_of",
    "policy_totals",
    "session_totals",
    "why_missing",
]
