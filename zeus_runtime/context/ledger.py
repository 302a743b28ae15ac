"""The ledger: one row per model call with the request and its reasons, as large at step 10 as at step 10,000.

A row holds how far the history and the edits had come, so that the view of that call can be folded again. It also holds
the fixed part (texts are stored once, under their digest), the step's decisions, and the provider's report.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, field, fields
from typing import Any, Final, Literal, TypeAlias

from zeus_runtime.frozen import copied, dataclass

Cause: TypeAlias = Literal["turn", "overflow", "window", "compact"]

MAX_DECISIONS: Final = 24
"""Decisions stored with one step; further ones are counted, not listed."""


@dataclass(frozen=True)
class PolicyDecision:
    """A decision on a policy's proposals: one entry for all edits of a kind with the same outcome.

    Args:
        policy: the middleware; ``runtime`` for the runtime's own entries.
        kind: the edit's kind; ``overflow``, ``cheaper`` (edits weighed against a compaction that is due) or ``more``
            for the runtime's own entries, which are not edits.
        admitted: whether the view changed.
        reason: why it was proposed, or why it was refused.
        count: the number of edits.
        seqs: the first and the last message that they name.
        numbers: the first and the last number of the admitted edits; empty for refusals.
        tokens_before, tokens_after: the tokens of the view's messages.
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
    """The provider's report of the call, in tokens."""

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0


@dataclass(frozen=True)
class RequestChange:
    """What a middleware's ``wrap_model_call`` made of the request that it got.

    Args:
        middleware: its name.
        parts: what it changed: ``system``, ``messages``, ``tools``, ``settings``.
        tokens: how many tokens the request has more, as counted; negative for fewer.
    """

    middleware: str
    parts: tuple[str, ...]
    tokens: int


@dataclass(frozen=True)
class StepRecord:
    """One model call.

    Args:
        number: counts from 1 in the session.
        run_id: the run that made the call.
        cursor: the last message of the history at the time of the call; the answer is at ``cursor + 1``.
        edits: how many edits of the log made its view.
        model: its name.
        cause: ``turn``, or ``compact`` for a compaction that the user asked for (without a model call).
        input_limit_tokens, output_reserve_tokens: the window.
        limit_learned: whether the input limit comes from an overflow error and is below the profile's.
        margin_share: the share that later counts may be too low by, learned from the provider's reports so far.
        fixed: digest of the parts other than messages (``Fixed``).
        fixed_tokens: their tokens.
        view_tokens: the tokens of the messages.
        by_source: ``view_tokens`` by source.
        messages: the number of messages sent.
        estimate_tokens: the whole request as counted, before anchoring.
        expected_tokens: the same, anchored to the provider's last count.
        decisions: the decisions before the call.
        changes: what middlewares then changed in the request, outermost first.
        sent: digest of the parts that they changed, as they were sent; empty if the request was sent as planned.
        usage: as reported; None where the provider reported nothing.
        cost_usd: the cost of the call, where a price is known.
        cost_estimated: whether the cost is computed from estimated tokens.
        cache_seconds: how long the provider keeps the request cached, unless it is used again; 0 if it is not cached.
        policy_tokens, policy_cost_usd: the usage of policies' own model calls in this step.
        duration_ms: the duration of the call.
        finish_reason: the answer's; empty for a failed call.
        error: the code of the error; empty if the model answered.
        why: why this model of the chain was asked; empty for the first one, and without a chain.
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
    margin_share: float = 0.0
    fixed: str = ""
    fixed_tokens: int = 0
    view_tokens: int = 0
    by_source: Mapping[str, int] = field(default_factory=dict)
    messages: int = 0
    estimate_tokens: int = 0
    expected_tokens: int = 0
    decisions: tuple[PolicyDecision, ...] = ()
    changes: tuple[RequestChange, ...] = ()
    sent: str = ""
    usage: StepUsage | None = None
    cost_usd: float | None = None
    cost_estimated: bool = False
    cache_seconds: float = 0.0
    policy_tokens: int = 0
    policy_cost_usd: float | None = None
    duration_ms: float = 0.0
    finish_reason: str = ""
    error: str = ""
    why: str = ""

    @property
    def sent_tokens(self) -> int:
        """The tokens of the request that was sent, as expected."""
        return self.expected_tokens + sum(each.tokens for each in self.changes)

    def override(self, **changes: Any) -> StepRecord:
        """A copy with ``changes``."""
        return copied(self, **changes)

    def to_json(self) -> str:
        """The stored form, without empty values and values that are the sum of others."""
        filled = {
            name: value
            for name, value in vars(self).items()
            # False and 0.0 equal 0, so they are left out too.
            if value not in (None, "", (), 0)
            or (value is not None and name.endswith("cost_usd"))  # a cost of 0 is known, not empty
        }
        if self.cause == "turn":
            del filled["cause"]
        if self.expected_tokens == self.estimate_tokens:
            filled.pop("expected_tokens", None)
        if self.estimate_tokens == self.fixed_tokens + self.view_tokens:
            filled.pop("estimate_tokens", None)
        if self.decisions:
            filled["decisions"] = [asdict(each) for each in self.decisions]
        if self.changes:
            filled["changes"] = [asdict(each) for each in self.changes]
        if self.usage is not None:
            filled["usage"] = vars(self.usage)
        filled["by_source"] = dict(self.by_source)
        return json.dumps(filled, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> StepRecord:
        """The step that ``to_json`` wrote.

        Raises:
            ValueError: the text is not a step.
        """
        try:
            value = json.loads(text)
            known = {each.name for each in fields(cls)}
            values: dict[str, Any] = {"number": 0, "cursor": 0, "edits": 0, "run_id": ""}
            # A row of a newer version may have more fields.
            values.update({name: item for name, item in value.items() if name in known})
            total = values.get("fixed_tokens", 0) + values.get("view_tokens", 0)
            values.setdefault("expected_tokens", values.setdefault("estimate_tokens", total))
            values["decisions"] = tuple(_decision(each) for each in value.get("decisions", ()))
            values["changes"] = tuple(
                RequestChange(**{**each, "parts": tuple(each["parts"])}) for each in value.get("changes", ())
            )
            if "usage" in value:
                values["usage"] = StepUsage(**value["usage"])
            return cls(**values)
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"not a ledger entry: {error}") from None


def _decision(value: Mapping[str, Any]) -> PolicyDecision:
    pairs = {name: tuple(value.get(name, ())) for name in ("seqs", "numbers")}
    return PolicyDecision(**{**value, **pairs})
