"""The history of items, and how many of them the agent saved on its own initiative."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, get_args

from sqlalchemy import and_, bindparam, delete, func, insert, select

from zeus_runtime.memory.items import MemoryItem
from zeus_runtime.memory.records.columns import from_ms, ms_or_none, time_or_none, to_ms
from zeus_runtime.memory.records.reading import portions
from zeus_runtime.store.compiled_statements import Prepared
from zeus_runtime.store.memory_tables import EXTRACTION, HISTORY

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row

Action: TypeAlias = Literal[
    "stored", "updated", "superseded", "archived", "restored", "released", "imported", "deleted"
]
ACTIONS: Final[tuple[Action, ...]] = get_args(Action)


def action_of(old: MemoryItem, new: MemoryItem) -> Action:
    """What a person did who changed ``old`` to ``new``."""
    if new.status != old.status:
        return "restored" if new.status == "active" else "archived"
    if (old.trust, new.content) == ("quarantined", old.content) and new.trust != old.trust:
        return "released"
    return "updated"


class HistoryEntry(NamedTuple):
    """One entry of an item's history.

    Args:
        by: the user on whose behalf it was done.
        content: as it was from then on; empty once the item was deleted.
        valid_from, valid_until: the time in which the content is true, as it was known from then on; None is open.
    """

    item: str
    version: int
    action: Action
    by: str
    at: datetime
    content: str
    valid_from: datetime | None = None
    valid_until: datetime | None = None


def record(connection: Connection, action: Action, by: str, at: datetime, *changes: MemoryItem) -> None:
    """Write what was done with these items to their histories; a delete writes no content."""
    rows = [
        {
            "item": item.id,
            "version": item.version,
            "action": action,
            "by": by,
            "at_ms": to_ms(at),
            "content": "" if action == "deleted" else item.content,
            "valid_from_ms": ms_or_none(item.valid_from),
            "valid_until_ms": ms_or_none(item.valid_until),
        }
        for item in changes
    ]
    if len(rows) == 1:
        _INSERT_HISTORY.run(connection, rows[0])
    elif rows:
        connection.execute(insert(HISTORY), rows)


_INSERT_HISTORY: Final = Prepared(
    insert(HISTORY)
    .values({column.name: bindparam(column.name) for column in HISTORY.columns if column.name != "key"})
    .inline()
)


def history(connection: Connection, item_id: str) -> list[HistoryEntry]:
    """What happened to an item, in order."""
    query = select(HISTORY).where(HISTORY.c.item == item_id).order_by(HISTORY.c.key)
    return [_entry(row) for row in connection.execute(query)]


def _entry(row: Row[Any]) -> HistoryEntry:
    return HistoryEntry(
        row.item,
        row.version,
        row.action,
        row.by,
        from_ms(row.at_ms),
        row.content,
        time_or_none(row.valid_from_ms),
        time_or_none(row.valid_until_ms),
    )


def histories(connection: Connection, ids: Collection[str]) -> dict[str, list[HistoryEntry]]:
    """What happened to each of these items, in order."""
    found: dict[str, list[HistoryEntry]] = {}
    for some in portions(ids):
        of = HISTORY.c.item.in_(some)
        for row in connection.execute(select(HISTORY).where(of).order_by(HISTORY.c.key)):
            found.setdefault(row.item, []).append(_entry(row))
    return found


def restore_history(connection: Connection, item: MemoryItem, changes: Sequence[HistoryEntry]) -> None:
    """Give an item without a history here the one that it had elsewhere."""
    rows = [
        {
            **each._asdict(),
            "item": item.id,
            "at_ms": to_ms(each.at),
            "valid_from_ms": ms_or_none(each.valid_from),
            "valid_until_ms": ms_or_none(each.valid_until),
        }
        for each in changes
    ]
    columns = {column.name for column in HISTORY.columns}
    if rows:
        connection.execute(
            insert(HISTORY), [{name: value for name, value in row.items() if name in columns} for row in rows]
        )


def extractions(connection: Connection, session: str, since: datetime, answer: str | None = None) -> int:
    """How often the agent saved on its own initiative in the session after ``since``; an answer's saves count once.

    Args:
        answer: whose next save is counted: saves of this answer count only if it may save no more.
    """
    query = select(EXTRACTION.c.answer, func.count()).group_by(EXTRACTION.c.answer)
    rows = connection.execute(query.where(EXTRACTION.c.session == session, EXTRACTION.c.at_ms > to_ms(since)))
    used = 0
    for of, saves in rows:
        if of is None:
            used += saves
        elif of == answer:
            # Rounded down: the next save belongs to a group of this answer that is counted once it is full.
            used += saves // SAVES_OF_AN_ANSWER
        else:
            # Rounded up: a group of another answer counts from its first save.
            used += -(-saves // SAVES_OF_AN_ANSWER)
    return used


SAVES_OF_AN_ANSWER: Final = 10
"""How many saves of one answer count as one extraction; more count as a further one, so no answer saves without end."""


def record_extraction(
    connection: Connection, session: str, at: datetime, since: datetime, answer: str | None = None
) -> None:
    """Count one more save, of ``answer``, and forget those that no window reaches any more."""
    connection.execute(
        # With each new one the old ones go, so no upkeep is needed.
        delete(EXTRACTION).where(EXTRACTION.c.session == session, EXTRACTION.c.at_ms <= to_ms(since))
    )
    row = {"session": session, "at_ms": to_ms(at), "answer": answer}
    connection.execute(insert(EXTRACTION), row)


def forget_extraction(connection: Connection, session: str, answer: str | None) -> None:
    """Take back the last extraction that was counted for this answer."""
    of = and_(EXTRACTION.c.session == session, EXTRACTION.c.answer.is_not_distinct_from(answer))
    last = select(func.max(EXTRACTION.c.key)).where(of).scalar_subquery()
    connection.execute(delete(EXTRACTION).where(EXTRACTION.c.key == last))
