"""Memories, figures and profiles as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from zeus_runtime.cli.output import ShortCell, TextTable, local_time

if TYPE_CHECKING:
    from datetime import datetime

    from zeus_runtime.memory.items import HiddenMemory, MemoryItem
    from zeus_runtime.memory.outcomes import MemoryStats
    from zeus_runtime.memory.profile.fields import ProfileField
    from zeus_runtime.memory.records import HistoryEntry
    from zeus_runtime.memory.retrieval.ranking import Ranked
    from zeus_runtime.memory.shown import Linked

_CONTENT_COLUMNS = 80


def items_table(
    items: Sequence[MemoryItem], hidden: Sequence[HiddenMemory], linked: Linked, now: datetime
) -> TextTable:
    """Memories as rows: id, kind, scope, date in local time, content; of hidden ones whose they are.

    The columns of validity and links are there if one memory has any.
    """
    heads = ("ID", "TYPE", "SCOPE", "STATUS", "CHANGED", "TRUE", "NEAR", "CONTENT")
    rows: list[tuple[str, ...]] = [
        (
            each.id,
            each.memory_type,
            each.scope,
            _status(each, now),
            local_time(each.updated_at),
            _validity(each),
            ", ".join(other.id for other in linked.get(each.id, ())),
            ShortCell(each.content, _CONTENT_COLUMNS),
        )
        for each in items
    ]
    rows += [
        (
            each.id,
            "",
            "project",
            "owner_only",
            local_time(each.created_at),
            "",
            "",
            f"(only {each.created_by} may read it)",
        )
        for each in hidden
    ]
    shown = [
        at for at, head in enumerate(heads) if head not in ("TRUE", "NEAR") or any(row[at] for row in rows)
    ]
    return TextTable([tuple(row[at] for at in shown) for row in rows], tuple(heads[at] for at in shown))


def quarantine_table(items: Sequence[MemoryItem], now: datetime) -> TextTable:
    """Quarantined memories as rows, with the source of each text."""
    rows = [
        (
            each.id,
            each.scope,
            " ".join(filter(None, (each.source, each.source_id))),
            each.created_by,
            local_time(each.updated_at),
            ShortCell(each.subject or "", _CONTENT_COLUMNS // 2),
            ShortCell(each.content, _CONTENT_COLUMNS),
        )
        for each in items
    ]
    return TextTable(rows, ("ID", "SCOPE", "SOURCE", "BY", "CHANGED", "SUBJECT", "CONTENT"))


def item_table(item: MemoryItem, linked: Linked, now: datetime) -> TextTable:
    """One memory, a field a row, and the memories near it."""
    rows = [
        ("id", item.id),
        ("content", item.content),
        ("type", item.memory_type),
        ("scope", item.scope),
        ("status", _status(item, now)),
        ("true", _validity(item)),
        ("subject", item.subject or ""),
        ("replaced by", item.superseded_by or ""),
        ("source", " ".join(filter(None, (item.source, item.source_id)))),
        ("confidence", f"{item.confidence:.2f}"),
        ("visibility", item.visibility if item.scope == "project" else ""),
        ("saved", f"{local_time(item.created_at)} by {item.created_by}"),
        ("changed", f"{local_time(item.updated_at)} (version {item.version})" if item.version > 1 else ""),
    ]
    near: list[tuple[str, str]] = [
        (
            "near" if not at else "",
            ShortCell(f"{each.id} ({local_time(each.said_at)}) {each.content}", _CONTENT_COLUMNS + 40),
        )
        for at, each in enumerate(linked.get(item.id, ()))
    ]
    return TextTable([row for row in rows if row[1]] + near)


def _validity(of: MemoryItem | HistoryEntry) -> str:
    """The days between which it is true, as far as they are known."""
    begins = "" if of.valid_from is None else f"from {of.valid_from:%Y-%m-%d}"
    ends = "" if of.valid_until is None else f"until {of.valid_until:%Y-%m-%d}"
    return " ".join(filter(None, (begins, ends)))


def _status(item: MemoryItem, now: datetime) -> str:
    """Its status, or why it is not found though it is active."""
    if item.trust == "quarantined":
        return "quarantined"
    if item.status != "active" or item.holds_at(now):
        return item.status
    return "not yet" if item.valid_from is not None and now < item.valid_from else "expired"


def found_table(found: Sequence[Ranked]) -> TextTable:
    """Memories that were found, with all that their place follows from."""
    rows = [
        (
            f"{each.final_score:.3f}",
            f"{each.similarity:.3f}",
            f"{each.confidence:.2f}",
            each.scope,
            each.item.memory_type,
            each.item.id,
            ShortCell(each.item.content, _CONTENT_COLUMNS),
        )
        for each in found
    ]
    return TextTable(rows, ("SCORE", "SIMILARITY", "CONFIDENCE", "SCOPE", "TYPE", "ID", "CONTENT"))


def stats_table(stats: MemoryStats) -> TextTable:
    """The figures, one kind of count a block."""
    rows = [("active", "", str(stats.active)), ("waiting for a vector", "", str(stats.waiting))]
    for name, counts in stats.by.items():
        rows += [(name.replace("_", " "), value, str(count)) for value, count in counts.items()]
    return TextTable(rows)


def history_table(changes: Sequence[HistoryEntry]) -> TextTable:
    """What happened to a memory, in order."""
    rows = [
        (
            str(each.version),
            each.action,
            local_time(each.at),
            each.by,
            _validity(each),
            ShortCell(each.content, _CONTENT_COLUMNS),
        )
        for each in changes
    ]
    return TextTable(rows, ("VERSION", "ACTION", "WHEN", "BY", "TRUE", "CONTENT"))


def profile_table(fields: Sequence[ProfileField]) -> TextTable:
    """A profile: each field, its entries on separate lines, who wrote it, and the memories it comes from."""
    rows: list[tuple[str, str, str, str]] = []
    for each in fields:
        entries = [each.value] if isinstance(each.value, str) else list(map(str, each.value))
        source = ", ".join(each.sources)
        rows.append((each.name, _line(entries[0]) if entries else "", each.by or "", source))
        rows += [("", _line(entry), "", "") for entry in entries[1:]]
    return TextTable(rows, ("FIELD", "VALUE", "BY", "FROM"))


def _line(text: str) -> str:
    return ShortCell(text, _CONTENT_COLUMNS)
