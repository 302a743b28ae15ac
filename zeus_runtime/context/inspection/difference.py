"""The changes between two steps, and the edits that made them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zeus_runtime.context.inspection.excerpts import excerpt
from zeus_runtime.context.inspection.trace import Fate, Trace, decisive
from zeus_runtime.context.ledger import StepRecord
from zeus_runtime.models.content import whole_text

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage


@dataclass(frozen=True)
class StepDifference:
    """One difference between two steps.

    Args:
        change: ``entered``, ``left`` or ``replaced`` (shown differently).
        what: ``message``, ``summary``, ``section`` or ``tool schema``.
        name: the ``seq`` or the name.
        source: where it came from.
        tokens: how much the request grew; negative if it shrank.
        by: the policy and kind of the edit; empty if no edit caused it.
        edit: the edit's number; None if no edit caused it.
        handle: the path of the original.
        excerpt: the beginning of its text.
    """

    change: str
    what: str
    name: str
    source: str
    tokens: int
    by: str = ""
    edit: int | None = None
    handle: str = ""
    excerpt: str = ""


@dataclass(frozen=True)
class Difference:
    """Two steps compared: the differences between their requests, in both directions."""

    before: StepRecord
    after: StepRecord
    changes: Sequence[StepDifference]


def difference(trace: Trace, first: int, second: int) -> Difference:
    """The changes from step ``first`` to step ``second``, which may be the earlier one.

    Raises:
        UsageError: a step does not exist, or it cannot be rebuilt.
    """
    before, after = trace.step(first), trace.step(second)
    old, new = trace.view(before), trace.view(after)
    changes = [*_fixed_changes(trace, before, after)]
    line = trace.line_of(after)
    old_items = {item.seq: item for item in old.items()}
    new_items = {item.seq: item for item in new.items()}
    for seq in sorted({*old_items, *new_items}):
        was, now = old_items.get(seq), new_items.get(seq)
        if was is not None and now is not None and _same(was.message, now.message):
            continue
        either = now or was
        assert either is not None
        kind = "entered" if was is None else "left" if now is None else "replaced"
        tokens = (0 if now is None else now.tokens) - (0 if was is None else was.tokens)
        fate = _between(line, seq, before, after) if kind != "entered" and seq else None
        changes.append(
            StepDifference(
                kind,
                "summary" if seq == 0 else "message",
                "summary" if seq == 0 else str(seq),
                either.source,
                tokens,
                f"{fate.policy} {fate.kind}" if fate else "",
                fate.number if fate else None,
                fate.handle if fate else "",
                excerpt(whole_text(either.message)),
            )
        )
    return Difference(before, after, changes)


def _fixed_changes(trace: Trace, before: StepRecord, after: StepRecord) -> Iterator[StepDifference]:
    old, new = trace.fixed(before), trace.fixed(after)
    if old is None or new is None or old.digest == new.digest:
        return
    for what, was, now in (("section", old.sections, new.sections), ("tool schema", old.tools, new.tools)):
        for name in dict.fromkeys((*was, *now)):
            one, other = was.get(name), now.get(name)
            if one is not None and other is not None and one.digest == other.digest:
                continue
            change = "entered" if one is None else "left" if other is None else "replaced"
            tokens = (other.tokens if other else 0) - (one.tokens if one else 0)
            part = other or one
            assert part is not None
            yield StepDifference(
                change, what, name, "prompt", tokens, excerpt=excerpt(trace.texts.get(part.digest, ""))
            )


def _between(trace: Trace, seq: int, before: StepRecord, after: StepRecord) -> Fate | None:
    low, high = sorted((before.edits, after.edits))
    return decisive([fate for fate in trace.fates.get(seq, ()) if low < fate.number <= high])


def _same(one: BaseMessage, other: BaseMessage) -> bool:
    calls = [getattr(each, "tool_calls", None) for each in (one, other)]
    return one.content == other.content and calls[0] == calls[1]
