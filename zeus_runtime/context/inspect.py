"""What a recorded context held and why, from the log, the edits and the ledger alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final

from zeus_runtime.context.edits import Edit, Pin, edit_kind
from zeus_runtime.context.fixed import Fixed, fixed_from_json
from zeus_runtime.context.ledger import Decision, Step
from zeus_runtime.context.view import View, fold, source_of
from zeus_runtime.errors import UsageError
from zeus_runtime.models.content import whole_text

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from zeus_runtime.context.tokens import Counter

EXCERPT_CHARACTERS: Final = 80

REMOVING: Final = ("drop_before", "summarize")
"""The kinds of edits that take messages out of the view."""


@dataclass(frozen=True)
class Trace:
    """One session as it is stored.

    Args:
        session: its id.
        history: every message, ``seq`` 1 first.
        edits: the admitted edits in order, each with the last message it could know.
        steps: the ledger.
        texts: digest to text of what the ledger refers to.
        counter: counts the messages' tokens as the model does.
        replayable: names of tools whose results can be fetched again.
        problems: what could not be read; views that need it cannot be shown.
    """

    session: str
    history: Sequence[BaseMessage]
    edits: Sequence[tuple[int, Edit]]
    steps: Sequence[Step]
    texts: Mapping[str, str] = field(default_factory=dict, repr=False)
    counter: Counter | None = None
    replayable: frozenset[str] = frozenset()
    problems: Sequence[str] = ()

    def step(self, number: int | None = None) -> Step:
        """The step ``number``; the last one by default.

        Raises:
            UsageError: the ledger has no such step.
        """
        if not self.steps:
            raise UsageError(
                f"the session {self.session} has no step yet", remedy="Its first model call makes one."
            )
        if number is None:
            return self.steps[-1]
        found = next((step for step in self.steps if step.number == number), None)
        if found is None:
            raise UsageError(
                f"the session {self.session} has no step {number}",
                remedy=f"It has steps {self.steps[0].number} to {self.steps[-1].number}.",
            )
        return found

    def view(self, step: Step) -> View:
        """The messages that ``step`` sent.

        Raises:
            UsageError: an edit that made it, or a message, cannot be read.
        """
        if step.edits > len(self.edits) or step.cursor > len(self.history):
            raise UsageError(
                f"what step {step.number} sent cannot be rebuilt: {'; '.join(self.problems) or 'the log is shorter'}"
            )
        edits = [edit for _, edit in self.edits[: step.edits]]
        return fold(self.history, edits, step.cursor, counter=self.counter, replayable=self.replayable)

    def fixed(self, step: Step) -> Fixed | None:
        """What ``step`` sent besides messages; None where the ledger lost it."""
        text = self.texts.get(step.fixed)
        try:
            return None if text is None else fixed_from_json(step.fixed, text)
        except (ValueError, KeyError, TypeError):
            return None

    @cached_property
    def fates(self) -> Mapping[int, tuple[Fate, ...]]:
        """Message ``seq`` to what happened to it, in order."""
        found: dict[int, list[Fate]] = {}
        view = fold(self.history, (), 0, counter=self.counter, replayable=self.replayable)
        for number, (at_seq, edit) in enumerate(self.edits, start=1):
            view = view.extended(min(at_seq, len(self.history)))
            step = next((step.number for step in self.steps if step.edits >= number), None)
            seqs = view.group(edit.seq) if isinstance(edit, Pin) else view.leaving(edit)
            fate = Fate(number, step, at_seq, edit.policy, edit_kind(edit), edit.reason, edit.handle)
            for seq in seqs:
                found.setdefault(seq, []).append(fate)
            view = view.applied(edit)
        return {seq: tuple(fates) for seq, fates in found.items()}


@dataclass(frozen=True)
class Fate:
    """What one edit did to a message.

    Args:
        number: the edit's, from 1.
        step: the first step that was sent so; None if none was.
        at_seq: the last message the edit could know.
        policy, kind, reason: who did what and why.
        handle: where the original can be read.
    """

    number: int
    step: int | None
    at_seq: int
    policy: str
    kind: str
    reason: str
    handle: str


@dataclass(frozen=True)
class Row:
    """One line of a composition.

    Args:
        part: ``section``, ``tool schema`` or ``messages``.
        name: the section, the tool, or the messages' source.
        survival: ``pinned``, ``replayable`` or ``normal``.
        count: how many messages; 1 for the others.
        tokens: of all of them.
        share: of the whole request.
    """

    part: str
    name: str
    survival: str
    count: int
    tokens: int
    share: float


@dataclass(frozen=True)
class PolicyTotals:
    """What one policy did up to a step: edits admitted and refused, and by how many tokens views became shorter."""

    policy: str
    admitted: int
    refused: int
    saved_tokens: int


@dataclass(frozen=True)
class SessionTotals:
    """All steps up to one: tokens as the providers reported them, policies' own calls, money where prices are known."""

    steps: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    policy_tokens: int
    cost_usd: float | None


@dataclass(frozen=True)
class Composition:
    """What one step sent.

    Args:
        step: the ledger's entry.
        rows: what took how many tokens, sections first; as counted, before anchoring on the provider's report.
        policies: what each policy did up to here.
        totals: what the session used up to here.
    """

    step: Step
    rows: Sequence[Row]
    policies: Sequence[PolicyTotals]
    totals: SessionTotals


def composition(trace: Trace, number: int | None = None) -> Composition:
    """What step ``number`` sent; the last one by default.

    Raises:
        UsageError: there is no such step, or it cannot be rebuilt.
    """
    step = trace.step(number)
    parts: list[tuple[str, str, str, int, int]] = []
    fixed = trace.fixed(step)
    if fixed is None:
        parts.append(("section", "(prompt and tools)", "pinned", 1, step.fixed_tokens))
    else:
        parts += [("section", name, "pinned", 1, part.tokens) for name, part in fixed.sections.items()]
        parts += [("tool schema", name, "pinned", 1, part.tokens) for name, part in fixed.tools.items()]
        framing = fixed.tokens - sum(tokens for *_, tokens in parts)
        if framing:
            parts.append(("framing", "", "pinned", 1, framing))
    grouped: dict[tuple[str, str], tuple[int, int]] = {}
    for item in trace.view(step).items():
        count, tokens = grouped.get((item.source, item.survival), (0, 0))
        grouped[item.source, item.survival] = count + 1, tokens + item.tokens
    parts += [
        ("messages", source, survival, count, tokens)
        for (source, survival), (count, tokens) in sorted(grouped.items(), key=lambda entry: -entry[1][1])
    ]
    whole = sum(tokens for *_, tokens in parts) or 1
    rows = [Row(*each, share=each[-1] / whole) for each in parts]
    until = [each for each in trace.steps if each.number <= step.number]
    return Composition(step, rows, policy_totals(until), session_totals(until))


def policy_totals(steps: Sequence[Step]) -> Sequence[PolicyTotals]:
    """What each policy did in ``steps``, in the order of its first decision."""
    found: dict[str, list[int]] = {}
    for decision in (each for step in steps for each in step.decisions):
        if decision.kind == "overflow":
            continue
        totals = found.setdefault(decision.policy, [0, 0, 0])
        if decision.admitted:
            totals[0] += decision.count
            totals[2] += decision.tokens_before - decision.tokens_after
        else:
            totals[1] += decision.count
    return [PolicyTotals(policy, *totals) for policy, totals in found.items()]


def session_totals(steps: Sequence[Step]) -> SessionTotals:
    """What ``steps`` used."""
    usages = [step.usage for step in steps if step.usage is not None]
    costs = [cost for step in steps for cost in (step.cost_usd, step.policy_cost_usd) if cost is not None]
    return SessionTotals(
        steps=len(steps),
        input_tokens=sum(usage.input_tokens for usage in usages),
        output_tokens=sum(usage.output_tokens for usage in usages),
        cache_read_tokens=sum(usage.cache_read_tokens for usage in usages),
        cache_write_tokens=sum(usage.cache_write_tokens for usage in usages),
        policy_tokens=sum(step.policy_tokens for step in steps),
        cost_usd=sum(costs) if costs else None,
    )


@dataclass(frozen=True)
class Change:
    """One thing that two steps do not have in common.

    Args:
        change: ``entered``, ``left`` or ``replaced`` (shown otherwise).
        what: ``message``, ``summary``, ``section`` or ``tool schema``.
        name: the ``seq`` or the name.
        source: where it came from.
        tokens: by how much the request grew; negative if it shrank.
        by: the policy and kind of the edit; empty where none did it.
        edit: its number; None where there is none.
        handle: where the original can be read.
        excerpt: how it begins.
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
    """Two steps compared: what the second sent that the first did not, and the other way round."""

    before: Step
    after: Step
    changes: Sequence[Change]


def difference(trace: Trace, first: int, second: int) -> Difference:
    """What changed from step ``first`` to step ``second``, which may come earlier.

    Raises:
        UsageError: there is no such step, or it cannot be rebuilt.
    """
    before, after = trace.step(first), trace.step(second)
    old, new = trace.view(before), trace.view(after)
    changes = [*_fixed_changes(trace, before, after)]
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
        fate = _between(trace, seq, before, after) if kind != "entered" and seq else None
        changes.append(
            Change(
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


def _fixed_changes(trace: Trace, before: Step, after: Step) -> Iterator[Change]:
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
            yield Change(
                change, what, name, "prompt", tokens, excerpt=excerpt(trace.texts.get(part.digest, ""))
            )


def _between(trace: Trace, seq: int, before: Step, after: Step) -> Fate | None:
    low, high = sorted((before.edits, after.edits))
    return _decisive([fate for fate in trace.fates.get(seq, ()) if low < fate.number <= high])


def _decisive(fates: Sequence[Fate]) -> Fate | None:
    """The edit that took a message out of the view, or else the last that shortened it."""
    shed = [fate for fate in fates if fate.kind != "pin"]
    return next((fate for fate in shed if fate.kind in REMOVING), shed[-1] if shed else None)


@dataclass(frozen=True)
class Explanation:
    """One item of the context.

    Args:
        item: as it was asked for.
        what: ``message``, ``section``, ``tool schema`` or ``summary``.
        source: where it came from.
        tokens: as the step shows it; 0 if it does not.
        original_tokens: as it came.
        survival: its class; empty for what left.
        status: ``shown``, ``replaced``, ``left`` or ``later`` (it came after the step).
        fates: what happened to it until the step.
        first_step: the first step that sent it.
        excerpt: how it begins.
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


def explanation(trace: Trace, item: str, number: int | None = None) -> Explanation:
    """Where an item came from and what happened to it up to step ``number``.

    Args:
        item: a message's ``seq``, the name of a section or of a tool, or ``summary``.

    Raises:
        UsageError: there is no such item.
    """
    step = trace.step(number)
    if item.isdigit() and 1 <= int(item) <= len(trace.history):
        return _explained_message(trace, int(item), step)
    fixed = trace.fixed(step)
    if fixed is not None:
        for what, parts in (("section", fixed.sections), ("tool schema", fixed.tools)):
            if item in parts:
                return _explained_part(trace, item, what, step)
    view = trace.view(step)
    if item == "summary" and view.summary is not None:
        made = [
            each
            for each in enumerate(trace.edits[: step.edits], start=1)
            if edit_kind(each[1][1]) == "summarize"
        ]
        number_, (at_seq, edit) = made[-1]
        fate = Fate(
            number_, _step_of(trace, number_), at_seq, edit.policy, "summarize", edit.reason, edit.handle
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


def _explained_message(trace: Trace, seq: int, step: Step) -> Explanation:
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


def _explained_part(trace: Trace, name: str, what: str, step: Step) -> Explanation:
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
    return Explanation(name, what, "prompt", part.tokens, part.tokens, "pinned", "shown", (), first, text)


@dataclass(frozen=True)
class Finding:
    """One place where a text stands or stood.

    Args:
        what: ``message``, ``summary``, ``section`` or ``tool schema``.
        name: the ``seq`` or the name.
        source: where it came from.
        status: ``shown``, ``left``, ``replaced``, or ``later``.
        excerpt: the text with what stands around it.
        fate: the edit that removed it.
        note: what else there is to say.
    """

    what: str
    name: str
    source: str
    status: str
    excerpt: str
    fate: Fate | None = None
    note: str = ""


def why_missing(trace: Trace, text: str, number: int | None = None) -> Sequence[Finding]:
    """Where ``text`` stands in the history, the prompt and the tools, and what removed it from step ``number``.

    Upper and lower case count as equal.
    """
    step = trace.step(number)
    wanted = text.casefold()
    view = trace.view(step)
    found: list[Finding] = []
    for seq, message in enumerate(trace.history, start=1):
        original = whole_text(message)
        if wanted not in original.casefold():
            continue
        found.append(_found(trace, view, seq, original, wanted, step))
    if view.summary is not None and wanted in (said := whole_text(view.summary)).casefold():
        found.append(Finding("summary", "summary", "summary", "shown", around(said, wanted)))
    found += _in_fixed(trace, wanted, step)
    return found


def _found(trace: Trace, view: View, seq: int, original: str, wanted: str, step: Step) -> Finding:
    source = source_of(trace.history[seq - 1])
    said = around(original, wanted)
    if seq > step.cursor:
        return Finding("message", str(seq), source, "later", said, note=f"it came after step {step.number}")
    if view.shown(seq) and wanted in whole_text(view.item_of(seq).message).casefold():
        return Finding("message", str(seq), source, "shown", said)
    fate = _decisive([fate for fate in trace.fates.get(seq, ()) if fate.number <= step.edits])
    return Finding("message", str(seq), source, "replaced" if view.shown(seq) else "left", said, fate)


def _in_fixed(trace: Trace, wanted: str, step: Step) -> Iterator[Finding]:
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
                yield Finding(what, name, "prompt", status, around(text, wanted), note=note)


def _step_of(trace: Trace, edit: int) -> int | None:
    return next((step.number for step in trace.steps if step.edits >= edit), None)


def _same(one: BaseMessage, other: BaseMessage) -> bool:
    calls = [getattr(each, "tool_calls", None) for each in (one, other)]
    return one.content == other.content and calls[0] == calls[1]


def excerpt(text: str) -> str:
    """How ``text`` begins, in one line."""
    line = " ".join(text[: 4 * EXCERPT_CHARACTERS].split())
    return line if len(line) <= EXCERPT_CHARACTERS else line[: EXCERPT_CHARACTERS - 1] + "…"


def around(text: str, wanted: str) -> str:
    """The place of ``wanted``, which is case-folded, in ``text``, in one line."""
    place = max(0, text.casefold().find(wanted))
    start = max(0, place - EXCERPT_CHARACTERS // 3)
    piece = " ".join(text[start : place + len(wanted) + EXCERPT_CHARACTERS // 2].split())
    return ("…" if start else "") + piece


def decisions_of(step: Step) -> Sequence[Decision]:
    """What was decided in ``step``, admitted edits first."""
    return sorted(step.decisions, key=lambda decision: not decision.admitted)
