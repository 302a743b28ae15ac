"""The history of items, and how many of them the agent saved on its own initiative."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from sqlalchemy import bindparam, delete, func, insert, select

from zeus_runtime.memory.items import MemoryItem
from zeus_runtime.memory.records.columns import from_ms, to_ms
from zeus_runtime.store.compiled_statements import Prepared
from zeus_runtime.store.memory_tables import EXTRACTION, HISTORY

if TYPE_CHECKING:
    from sqlalchemy import Connection

Action: TypeAlias = Literal["stored", "updated", "superseded", "archived", "restored", "imported", "deleted"]


class HistoryEntry(NamedTuple):
    """One entry of an item's history.

    Args:
        by: the user on whose behalf it was done.
        content: as it was from then on; empty once the item was deleted.
    """

    item: str
    version: int
    action: Action
    by: str
    at: datetime
    content: str


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
        }
        for item in changes
    ]
    if len(rows) == 1:
        _INSERT_HISTORY.run(connection, rows[0])
    elif rows:
        connection.execute(insert(HISTORY), rows)


_INSERT_HISTORY: Final = Prepared(
    insert(HISTORY)
    .values({name: bindparam(name) for name in ("item", "version", "action", "by", "at_ms", "content")})
    .inline()
)


def history(connection: Connection, item_id: str) -> list[HistoryEntry]:
    """What happened to an item, in order."""
    names = [each.name for each in (HISTORY.c.item, HISTORY.c.version, HISTORY.c.action, HISTORY.c.by)]
    query = select(*(HISTORY.c[name] for name in names), HISTORY.c.at_ms, HISTORY.c.content)
    rows = connection.execute(query.where(HISTORY.c.item == item_id).order_by(HISTORY.c.key))
    return [HistoryEntry(row[0], row[1], row[2], row[3], from_ms(row[4]), row[5]) for row in rows]


def extractions(connection: Connection, session: str, since: datetime) -> int:
    """How many memories the agent saved on its own initiative in the session after ``since``."""
    query = select(func.count()).select_from(EXTRACTION)
    where = query.where(EXTRACTION.c.session == session, EXTRACTION.c.at_ms > to_ms(since))
    return int(connection.execute(where).scalar_one())


def record_extraction(connection: Connection, session: str, at: datetime, since: datetime) -> None:
    """Count one more, and forget those that no window reaches any more."""
    connection.execute(
        delete(EXTRACTION).where(EXTRACTION.c.session == session, EXTRACTION.c.at_ms <= to_ms(since))
    )
    connection.execute(insert(EXTRACTION), {"session": session, "at_ms": to_ms(at)})
