"""Why a text is, or is not, part of a step's request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from zeus_runtime.context.inspection.excerpts import around
from zeus_runtime.context.inspection.trace import Branch, Fate, Trace, decisive
from zeus_runtime.context.items import source_of
from zeus_runtime.context.ledger import StepRecord
from zeus_runtime.context.view import View
from zeus_runtime.models.content import whole_text


@dataclass(frozen=True)
class TextPlace:
    """One place where a text is or was.

    Args:
        what: ``message``, ``summary``, ``section`` or ``tool schema``.
        name: the ``seq`` or the name.
        source: where it came from.
        status: ``shown``, ``left``, ``replaced``, ``later``, or ``set aside`` by a return to an earlier message.
        excerpt: the text with its surroundings.
        fate: the edit that removed it.
        note: a further explanation.
    """

    what: str
    name: str
    source: str
    status: str
    excerpt: str
    fate: Fate | None = None
    note: str = ""


def why_missing(trace: Trace, text: str, number: int | None = None) -> Sequence[TextPlace]:
    """The places of ``text`` in history, prompt and tools, and the edit that removed it from step ``number``.

    Messages that were set aside before that step, when the user went back to an earlier message, are searched too. The
    search ignores case.
    """
    step = trace.step(number)
    former = [each for each in trace.branches if each.until_step < step.number]
    trace = trace.line_of(step)
    wanted = text.casefold()
    view = trace.view(step)
    found: list[TextPlace] = []
    for seq, message in enumerate(trace.history, start=1):
        original = whole_text(message)
        if wanted not in original.casefold():
            continue
        found.append(_found(trace, view, seq, original, wanted, step))
    if view.summary is not None and wanted in (said := whole_text(view.summary)).casefold():
        found.append(TextPlace("summary", "summary", "summary", "shown", around(said, wanted)))
    found += _set_aside(trace, former, wanted)
    found += _in_fixed(trace, wanted, step)
    return found


def _set_aside(trace: Trace, former: Sequence[Branch], wanted: str) -> Iterator[TextPlace]:
    told: list[tuple[int, str]] = []
    for branch in former:
        for seq, message in enumerate(branch.history, start=1):
            original = whole_text(message)
            if wanted not in original.casefold() or (seq, original) in told:
                continue
            if seq <= len(trace.history) and whole_text(trace.history[seq - 1]) == original:
                continue
            told.append((seq, original))
            note = f"the user went back before it after step {branch.until_step}, where it was last part of the session"
            yield TextPlace(
                "message", str(seq), source_of(message), "set aside", around(original, wanted), note=note
            )


def _found(trace: Trace, view: View, seq: int, original: str, wanted: str, step: StepRecord) -> TextPlace:
    source = source_of(trace.history[seq - 1])
    said = around(original, wanted)
    if seq > step.cursor:
        return TextPlace("message", str(seq), source, "later", said, note=f"it came after step {step.number}")
    if view.shown(seq) and wanted in whole_text(view.item_of(seq).message).casefold():
        return TextPlace("message", str(seq), source, "shown", said)
    fate = decisive([fate for fate in trace.fates.get(seq, ()) if fate.number <= step.edits])
    return TextPlace("message", str(seq), source, "replaced" if view.shown(seq) else "left", said, fate)


def _in_fixed(trace: Trace, wanted: str, step: StepRecord) -> Iterator[TextPlace]:
    now = trace.fixed(step)
    current = {} if now is None else {part.digest for part in (*now.sections.values(), *now.tools.values())}
    told: set[str] = set()
    for each in trace.steps:
        fixed = trace.fixed(each)
        if fixed is None:
            continue
        for what, parts in (("section", fixed.sections), ("tool schema", fixed.tools)):
            for name, part in parts.items():
                if part.digest in told or wanted not in (text := trace.texts.get(part.digest, "")).casefold():
                    continue
                told.add(part.digest)
                shown = part.digest in current
                last = max(other.number for other in trace.steps if other.fixed == each.fixed)
                note = (
                    ""
                    if shown
                    else f"the {what} said so up to step {last}"
                    if last < step.number
                    else "it came later"
                )
                status = "shown" if shown else "left" if last < step.number else "later"
                yield TextPlace(what, name, "prompt", status, around(text, wanted), note=note)
