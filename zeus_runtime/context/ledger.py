"""The ledger: one row per model call that says what was sent and why, of the same size at step 10 and step 10,000.

A row holds how far the history and the edits went, so that the view of that call can be folded again; what the fixed
part was (texts are stored once, under their digest); the decisions of the step; and what the provider reported.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from zeus_runtime.context.tokens import Counter
    from zeus_runtime.models.interface import ToolSchema

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
        filled = {name: value for name, value in vars(self).items() if value not in (None, "", (), 0)}
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


@dataclass(frozen=True)
class Part:
    """A section of the prompt or a tool's schema: the digest of its text, and its tokens."""

    digest: str
    tokens: int


@dataclass(frozen=True)
class Fixed:
    """What a request holds besides messages.

    Args:
        digest: names the whole.
        tokens: of the whole, the provider's framing included.
        sections: name to part, in the prompt's order.
        tools: name to part, in the order the model sees them.
        texts: digest to text, of every part and of the whole (its JSON).
    """

    digest: str
    tokens: int
    sections: Mapping[str, Part]
    tools: Mapping[str, Part]
    texts: Mapping[str, str] = field(default_factory=dict, repr=False)


def fixed_from_json(digest: str, text: str) -> Fixed:
    """The whole that a ``fixed`` digest names, from its text in the store; the parts' texts are not in it."""
    value = json.loads(text)
    return Fixed(
        digest,
        value["tokens"],
        {name: Part(*part) for name, part in value["sections"].items()},
        {name: Part(*part) for name, part in value["tools"].items()},
    )


class FixedParts:
    """Counts and names the fixed part of requests; what did not change since the last one costs nothing.

    Args:
        counter: counts tokens.
        schemas: the tools.
    """

    def __init__(self, counter: Counter, schemas: Sequence[ToolSchema]) -> None:
        self._counter = counter
        self._texts: dict[str, str] = {}
        self._parts: dict[str, Part] = {}
        self._schemas = schemas
        self._tools: dict[str, Part] | None = None
        self._last: tuple[tuple[tuple[str, str], ...], Fixed] | None = None

    def measure(self, sections: Sequence[tuple[str, str]], system: str) -> Fixed:
        """The fixed part of a request.

        Args:
            sections: (name, text) of each, in order.
            system: the whole prompt.
        """
        given = tuple((str(name), text) for name, text in sections)
        if self._last is not None and self._last[0] == given:
            return self._last[1]
        if self._tools is None:
            self._tools = {each.name: self._tool(each) for each in self._schemas}
        parts = {name: self._part(text) for name, text in given}
        tokens = self._counter.fixed(system, self._schemas)
        whole = json.dumps(
            {
                "tokens": tokens,
                "sections": {name: [part.digest, part.tokens] for name, part in parts.items()},
                "tools": {name: [part.digest, part.tokens] for name, part in self._tools.items()},
            },
            ensure_ascii=False,
            separators=(",", ":"),
        )
        digest = _digest(whole)
        texts = {part.digest: self._texts[part.digest] for part in (*parts.values(), *self._tools.values())}
        fixed = Fixed(digest, tokens, parts, self._tools, {**texts, digest: whole})
        self._last = (given, fixed)
        return fixed

    def _part(self, text: str) -> Part:
        part = self._parts.get(text)
        if part is None:
            part = self._parts[text] = Part(_digest(text), self._counter.text(text))
            self._texts[part.digest] = text
        return part

    def _tool(self, schema: ToolSchema) -> Part:
        text = json.dumps(
            {"name": schema.name, "description": schema.description, "parameters": schema.parameters},
            ensure_ascii=False,
            separators=(",", ":"),
        )
        digest = _digest(text)
        self._texts[digest] = text
        # By the second of two: what stands around all tools is no tool's own.
        own = self._counter.tools([schema, schema]) - self._counter.tools([schema])
        return Part(digest, own)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:24]
