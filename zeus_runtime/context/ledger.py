"""The ledger: one row per model call that says what was sent and why, of the same size at step 10 and step 10,000.

A row holds how far the history and the edits went, so that the view of that call can be folded again; what the fixed
part was (texts are stored once, under their digest); the decisions of the step; and what the provider reported.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Final, Literal, TypeAlias

Cause: TypeAlias = Literal["turn", "overflow", "window", "compact"]

MAX_DECISIONS: Final = 24
"""Decisions kept with one step; refusals beyond it are counted, not listed."""


@dataclass(frozen=True)
class Decision:
    """What was decided on a policy's proposals: one entry for all edits of a kind that fared alike.

    Args:
        policy: the middleware; ``runtime`` for what the runtime did itself.
        kind: the edit's kind, or ``overflow`` and ``summary_failed`` and the like for what is no edit.
        admitted: whether the view changed.
        reason: why it was proposed, or why it was refused.
        count: how many edits.
        seqs: the first and the last message they name.
        numbers: the first and the last number of the admitted edits; empty for refusals.
        tokens_before, tokens_after: the view's messages.
    """

    policy: str
    kind: str
    admitted: bool
    reason: str
    count: int = 1
    seqs: tuple[int, ...] = ()
    numbers: tuple[int, ...] = ()
    tokens_before: int = 0
    tokens_after: int = 0


@dataclass(frozen=True)
class StepUsage:
    """What the provider reported for the call, in tokens; None where it reported nothing."""

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0


@dataclass(frozen=True)
class Step:
    """One model call.

    Args:
        number: counts from 1 in the thread.
        run_id: whose call.
        cursor: the last message of the history that the call knew of; the answer is at ``cursor + 1``.
        edits: how many edits of the log made its view.
        model: its name.
        cause: ``turn``, or ``compact`` for a compaction the user asked for (no model call).
        input_limit_tokens, output_reserve_tokens: the window.
        limit_learned: whether the input limit is what an overflow error stated, below the profile's.
        fixed: digest of what was sent besides messages (``Fixed``).
        fixed_tokens: of it.
        view_tokens: of the messages.
        by_source: ``view_tokens`` by source.
        messages: how many were sent.
        estimate_tokens: the whole request as counted, before anchoring.
        expected_tokens: the same anchored on what the provider had reported.
        decisions: what was decided before the call.
        usage: as reported.
        cost_usd: of the call, where a price is known.
        cost_estimated: whether the tokens that it was made from are an estimate.
        policy_tokens, policy_cost_usd: what policies' own model calls took in this step.
        duration_ms: of the call.
        finish_reason: the answer's; empty for a failed call.
        error: why there was no answer.
    """

    number: int
    run_id: str
    cursor: int
    edits: int
    model: str = ""
    cause: Cause = "turn"
    input_limit_tokens: int = 0
    output_reserve_tokens: int = 0
    limit_learned: bool = False
    fixed: str = ""
    fixed_tokens: int = 0
    view_tokens: int = 0
    by_source: Mapping[str, int] = field(default_factory=dict)
    messages: int = 0
    estimate_tokens: int = 0
    expected_tokens: int = 0
    decisions: tuple[Decision, ...] = ()
    usage: StepUsage | None = None
    cost_usd: float | None = None
    cost_estimated: bool = False
    policy_tokens: int = 0
    policy_cost_usd: float | None = None
    duration_ms: float = 0.0
    finish_reason: str = ""
    error: str = ""

    def override(self, **changes: Any) -> Step:
        """A copy with ``changes``."""
        return replace(self, **changes)

    def to_json(self) -> str:
        """As the store keeps it; what is empty, or the sum of other fields, is left out."""
        filled = {
            name: value
            for name, value in vars(self).items()
            if value not in (None, "", (), 0)
            or (value is not None and name.endswith("cost_usd"))  # free is a price
        }
        if self.cause == "turn":
            del filled["cause"]
        if self.expected_tokens == self.estimate_tokens:
            filled.pop("expected_tokens", None)
        if self.estimate_tokens == self.fixed_tokens + self.view_tokens:
            filled.pop("estimate_tokens", None)
        if self.decisions:
            filled["decisions"] = [asdict(each) for each in self.decisions]
        if self.usage is not None:
            filled["usage"] = vars(self.usage)
        filled["by_source"] = dict(self.by_source)
        return json.dumps(filled, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Step:
        """What ``to_json`` wrote.

        Raises:
            ValueError: it is no step.
        """
        try:
            value = json.loads(text)
            known = {each.name for each in fields(cls)}
            values: dict[str, Any] = {"number": 0, "cursor": 0, "edits": 0, "run_id": ""}
            values.update({name: item for name, item in value.items() if name in known})
            total = values.get("fixed_tokens", 0) + values.get("view_tokens", 0)
            values.setdefault("expected_tokens", values.setdefault("estimate_tokens", total))
            values["decisions"] = tuple(_decision(each) for each in value.get("decisions", ()))
            if "usage" in value:
                values["usage"] = StepUsage(**value["usage"])
            return cls(**values)
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"not a ledger entry: {error}") from None


def _decision(value: Mapping[str, Any]) -> Decision:
    pairs = {name: tuple(value.get(name, ())) for name in ("seqs", "numbers")}
    return Decision(**{**value, **pairs})
