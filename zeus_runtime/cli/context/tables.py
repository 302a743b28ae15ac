"""The context commands' findings as texts and tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from zeus_runtime.cli.output import Shown, TextTable
from zeus_runtime.columns import shortened

if TYPE_CHECKING:
    from zeus_runtime.context.inspection import (
        Composition,
        Difference,
        Explanation,
        Fate,
        SessionTotals,
        TextPlace,
    )
    from zeus_runtime.context.ledger import PolicyDecision, StepRecord
    from zeus_runtime.context.replay.provider_simulator import SimulatedCost


def composition_text(session: str, found: Composition, more: str = "") -> Shown:
    """What a step sent, what was decided, and what the session used until then.

    Args:
        more: a last line.
    """
    step = found.step
    blocks: list[str | TextTable] = [_heading(session, step)]
    rows = [
        (row.part, row.name, str(row.count), f"{row.tokens:,}", f"{row.share:.1%}", row.survival)
        for row in found.rows
    ]
    blocks.append(TextTable(rows, ("PART", "NAME", "N", "TOKENS", "SHARE", "SURVIVAL")))
    if found.files:
        blocks.append("\n".join(f"{name} is from {', '.join(paths)}" for name, paths in found.files.items()))
    blocks.append(TextTable([*_measured(step)]))
    if step.decisions:
        blocks.append("decided before this call:\n" + "\n".join(map(decision_line, step.decisions)))
    if found.policies:
        totals = [
            (each.policy, f"{each.admitted:,}", f"{each.refused:,}", f"{each.saved_tokens:,}")
            for each in found.policies
        ]
        blocks.append(TextTable(totals, ("POLICY SO FAR", "EDITS", "REFUSED", "TOKENS SHED")))
    blocks.append("\n".join(filter(None, (_used(found.totals), more))))
    return [part for block in blocks for part in (block, "")][:-1]


def difference_text(session: str, found: Difference) -> Shown:
    """What two steps do not have in common."""
    before, after = found.before, found.after
    head = (
        f"{session} · step {before.number} → step {after.number}: messages {before.view_tokens:,} →"
        f" {after.view_tokens:,} tokens, prompt and tools {before.fixed_tokens:,} → {after.fixed_tokens:,}"
    )
    if not found.changes:
        return f"{head}\n\nNothing changed."
    rows = [
        (
            each.change,
            f"{each.what} {each.name}" if each.what != "summary" else "summary",
            each.source,
            f"{each.tokens:+,}",
            f"{each.by} (edit {each.edit})" if each.by else "",
            each.handle,
            shortened(each.excerpt, 40),
        )
        for each in found.changes
    ]
    return head, "", TextTable(rows, ("CHANGE", "ITEM", "SOURCE", "TOKENS", "BY", "ORIGINAL AT", "BEGINS"))


def explanation_text(session: str, step: StepRecord, found: Explanation) -> Shown:
    """Where an item came from and what happened to it."""
    name = found.item if found.what == "summary" else f"{found.what} {found.item}"
    words = {
        "shown": "is sent",
        "replaced": "is sent as a pointer",
        "left": "is not sent any more",
        "later": "came later",
    }
    facts = [("from", found.source)]
    if found.first_step is not None:
        facts.append(("since", f"step {found.first_step}"))
    if found.status != "later":
        now = f"{found.tokens:,}" if found.tokens == found.original_tokens else _shrunk(found)
        facts.append(("tokens", now))
    if found.survival:
        facts.append(("survival", found.survival))
    facts += [("edited", fate_line(fate)) for fate in found.fates]
    if found.excerpt:
        facts.append(("begins", found.excerpt))
    facts += [("" if place else "made from", source_line(each)) for place, each in enumerate(found.sources)]
    return f"{session} · step {step.number}: {name} {words[found.status]}", TextTable(facts, indent="  ")


def source_line(source: Mapping[str, Any]) -> str:
    """One source of a section: its kind, then its known properties."""
    named = " ".join(str(source[name]) for name in ("id", "field") if name in source)
    rest = [
        f"{name} {_figure(value)}"
        for name, value in source.items()
        if name not in ("id", "field") and value is not None
    ]
    return ", ".join([named, *rest]) if named else ", ".join(rest)


def _figure(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4f}"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def findings_text(session: str, step: StepRecord, text: str, found: Sequence[TextPlace]) -> str:
    """The places of a text, now and earlier."""
    head = f"{session} · step {step.number}: {shortened(text, 60)!r}"
    if not found:
        return f"{head} stands nowhere: not in the history, the prompt, or the tools."
    missing = all(each.status != "shown" for each in found)
    lines = [f"{head} {'is missing' if missing else 'is sent'}"]
    for each in found:
        name = each.name if each.what == "summary" else f"{each.what} {each.name}"
        lines.append(f"  {name} ({each.source}): {each.status}" + (f", {each.note}" if each.note else ""))
        lines.append(f"    {each.excerpt}")
        if each.fate is not None:
            lines.append(f"    {fate_line(each.fate)}")
    return "\n".join(lines)


def outcomes_table(found: Sequence[SimulatedCost]) -> TextTable:
    """Sessions under policies, and each policy's cost beside the first one's."""
    first: dict[str, float | None] = {}
    rows = []
    for each in found:
        base = first.setdefault(each.session, each.cost_usd)
        ratio = "" if not base or each.cost_usd is None else f"{each.cost_usd / base:.2f}"
        needles = f"{each.needles_kept}/{each.needles_needed}" if each.needles_needed else "–"
        rows.append(
            (
                shortened(each.session, 32),
                shortened(each.policy, 28),
                f"{each.steps:,}",
                f"{each.sent_tokens:,}",
                f"{each.read_tokens:,}",
                f"{each.written_tokens:,}",
                "?" if each.cost_usd is None else f"${each.cost_usd:.4f}",
                ratio,
                str(each.compactions),
                str(each.overflows),
                needles,
                f"{each.reusable_share:.1%}",
                shortened(each.failure, 60),
            )
        )
    header = (
        "SESSION",
        "POLICY",
        "STEPS",
        "SENT",
        "CACHE READ",
        "WRITTEN",
        "COST",
        "RATIO",
        "COMPACTIONS",
        "OVERFLOWS",
        "NEEDLES",
        "REUSABLE",
        "ENDED EARLY",
    )
    return TextTable(rows, header)


def decision_line(decision: PolicyDecision) -> str:
    """One decision in a line."""
    seqs = decision.seqs
    where = (
        ""
        if not seqs
        else f" of message {seqs[0]}"
        if len({*seqs}) == 1
        else f" of messages {seqs[0]}-{seqs[-1]}"
    )
    count = f"{decision.count} × " if decision.count > 1 else ""
    did = f"  {decision.policy}: {count}{decision.kind}{where}"
    if decision.admitted:
        return f"{did}, {decision.tokens_before:,} → {decision.tokens_after:,} tokens: {decision.reason}"
    return f"{did}, {'noted' if decision.policy == 'runtime' else 'refused'}: {decision.reason}"


def fate_line(fate: Fate) -> str:
    """One edit of a message in a line."""
    step = "no step yet" if fate.step is None else f"step {fate.step}"
    handle = f"; the original is at {fate.handle}" if fate.handle else ""
    return f"{step}: {fate.policy} {fate.kind} (edit {fate.number}): {fate.reason}{handle}"


def _heading(session: str, step: StepRecord) -> str:
    what = "a compaction, no model call" if step.cause == "compact" else step.model
    return f"{session} · step {step.number} · {what} · {step.messages} messages up to {step.cursor}"


def _measured(step: StepRecord) -> Iterator[tuple[str, str]]:
    counted = f"counted {step.estimate_tokens:,}"
    if step.expected_tokens != step.estimate_tokens:
        counted += f", expected {step.expected_tokens:,}"
    yield "tokens", f"{counted} of {step.input_limit_tokens:,}"
    for change in step.changes:
        yield "changed", f"by {change.middleware}: {', '.join(change.parts)}, {change.tokens:+,} tokens"
    if step.changes:
        yield "sent", f"{step.sent_tokens:,}"
    if step.usage is not None:
        usage = step.usage
        yield (
            "reported",
            f"{usage.input_tokens:,} in ({usage.cache_read_tokens:,} from the cache,"
            f" {usage.cache_write_tokens:,} written to it), {usage.output_tokens:,} out",
        )
    if step.cost_usd is not None:
        yield "cost", f"${step.cost_usd:.4f}"
    if step.policy_tokens:
        money = "" if step.policy_cost_usd is None else f", ${step.policy_cost_usd:.4f}"
        yield "policies", f"{step.policy_tokens:,} tokens of their own calls{money}"
    if step.why:
        yield "chain", step.why
    if step.error:
        yield "failed", step.error


def _used(totals: SessionTotals) -> str:
    share = totals.cache_read_tokens / totals.input_tokens if totals.input_tokens else 0.0
    own = (
        f"; policies' own calls: {totals.policy_tokens:,} tokens, {_money(totals.policy_cost_usd)}"
        if totals.policy_tokens
        else ""
    )
    return (
        f"session so far: {totals.steps:,} steps, {totals.input_tokens:,} tokens in ({share:.0%} from the cache,"
        f" {totals.cache_write_tokens:,} written), {totals.output_tokens:,} out, {_money(totals.cost_usd)}{own}"
    )


def _money(usd: float | None) -> str:
    return "no price known" if usd is None else f"${usd:.4f}"


def _shrunk(found: Explanation) -> str:
    return f"{found.tokens:,} of {found.original_tokens:,}"
