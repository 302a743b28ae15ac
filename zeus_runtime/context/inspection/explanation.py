"""The origin of one item of the context, and its changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zeus_runtime.context.edits import edit_kind
from zeus_runtime.context.inspection.excerpts import excerpt
from zeus_runtime.context.inspection.trace import Fate, Trace
from zeus_runtime.context.items import source_of
from zeus_runtime.context.ledger import StepRecord
from zeus_runtime.errors import UsageError
from zeus_runtime.models.content import whole_text
from zeus_runtime.prompt.sections import Section


@dataclass(frozen=True)
class Explanation:
    """One item of the context.

    Args:
        item: the name that was asked for.
        what: ``message``, ``section``, ``tool schema`` or ``summary``.
        source: where it came from.
        tokens: as the step shows it; 0 if the step does not.
        original_tokens: before any edit.
        survival: its class; empty if it left the view.
        status: ``shown``, ``replaced``, ``left`` or ``later`` (it came after the step).
        fates: its changes up to the step.
        first_step: the first step that sent it.
        excerpt: the beginning of its text.
        sources: the ledger's record of what it was made from: a memory's scores, or the reason why a memory that was
            shown is no longer valid.
    """

    item: str
    what: str
    source: str
    tokens: int
    original_tokens: int
    survival: str
    status: str
    fates: Sequence[Fate] = ()
    first_step: int | None = None
    excerpt: str = ""
    sources: Sequence[Mapping[str, Any]] = ()


def explanation(trace: Trace, item: str, number: int | None = None) -> Explanation:
    """The origin of an item, and its changes up to step ``number``.

    Args:
        item: a message's ``seq``, the name of a section or of a tool, ``summary``, or the id of a memory that the
            prompt contained.

    Raises:
        UsageError: there is no such item.
    """
    step = trace.step(number)
    trace = trace.line_of(step)
    if item.isdecimal() and 1 <= int(item) <= len(trace.history):
        return _explained_message(trace, int(item), step)
    fixed = trace.fixed(step)
    if fixed is not None:
        for what, parts in (("section", fixed.sections), ("tool schema", fixed.tools)):
            if item in parts:
                return _explained_part(trace, item, what, step)
    if (memory := _explained_memory(trace, item, step)) is not None:
        return memory
    view = trace.view(step)
    if item == "summary" and view.summary is not None:
        made = [
            each
            for each in enumerate(trace.edits[: step.edits], start=1)
            if edit_kind(each[1][1]) == "summarize"
        ]
        number_, (at_seq, edit) = made[-1]
        fate = Fate(
            number_, trace.step_of(number_), at_seq, edit.policy, "summarize", edit.reason, edit.handle
        )
        tokens = view.by_source.get("summary", 0)
        text = excerpt(whole_text(view.summary))
        return Explanation(
            item, "summary", edit.policy, tokens, tokens, "normal", "shown", (fate,), fate.step, text
        )
    known = [*(fixed.sections if fixed else ()), *(fixed.tools if fixed else ())]
    raise UsageError(
        f"step {step.number} of {trace.session} knows no item {item!r}",
        remedy=f"Items are messages 1 to {len(trace.history)}, summary, {', '.join(known) or 'sections and tools'}.",
    )


def _explained_message(trace: Trace, seq: int, step: StepRecord) -> Explanation:
    message = trace.history[seq - 1]
    fates = tuple(fate for fate in trace.fates.get(seq, ()) if fate.number <= step.edits)
    first = next((each.number for each in trace.steps if each.cursor >= seq), None)
    if seq > step.cursor:
        return Explanation(
            str(seq),
            "message",
            source_of(message),
            0,
            0,
            "",
            "later",
            (),
            first,
            excerpt(whole_text(message)),
        )
    view = trace.view(step)
    shown = view.shown(seq)
    item = view.item_of(seq)
    replaced = any(fate.kind in ("evict", "truncate_arguments") for fate in fates)
    return Explanation(
        str(seq),
        "message",
        source_of(message),
        item.tokens if shown else 0,
        view.original_tokens(seq),
        item.survival if shown else "",
        "left" if not shown else "replaced" if replaced else "shown",
        fates,
        first,
        excerpt(whole_text(message)),
    )


def _explained_part(trace: Trace, name: str, what: str, step: StepRecord) -> Explanation:
    fixed = trace.fixed(step)
    assert fixed is not None
    part = (fixed.sections if what == "section" else fixed.tools)[name]
    first = step.number
    for each in trace.steps:
        other = trace.fixed(each)
        if other is not None and part in (other.sections.get(name), other.tools.get(name)):
            first = each.number
            break
    text = excerpt(trace.texts.get(part.digest, ""))
    # Users ask for section 12 as ``memory`` too, which is the name of section 5.
    sources = (
        trace.sources(step, Section.MEMORIES if name == Section.MEMORY else name) if what == "section" else ()
    )
    return Explanation(
        name, what, "prompt", part.tokens, part.tokens, "pinned", "shown", (), first, text, sources
    )


def _explained_memory(trace: Trace, item: str, step: StepRecord) -> Explanation | None:
    sources = [each for each in trace.sources(step, Section.MEMORIES) if each.get("id") == item]
    if not sources:
        return None
    first = next(
        each.number
        for each in trace.steps
        if any(source.get("id") == item for source in trace.sources(each, Section.MEMORIES))
    )
    shown = any(each.get("shown") for each in sources)
    return Explanation(
        item, "memory", "memories", 0, 0, "", "shown" if shown else "left", (), first, "", sources
    )
