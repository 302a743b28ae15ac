"""Links between memories that are near each other and were both kept."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from sqlalchemy import bindparam, delete, insert, or_, select

from zeus_runtime.memory.items import MemoryItem
from zeus_runtime.memory.permissions import Reach
from zeus_runtime.memory.records.reading import by_ids, portions
from zeus_runtime.memory.retrieval.ranking import said_last
from zeus_runtime.store.compiled_statements import Prepared
from zeus_runtime.store.memory_tables import ITEM, LINK

if TYPE_CHECKING:
    from sqlalchemy import Connection


def link(connection: Connection, item_id: str, others: Collection[str]) -> None:
    """Link a memory with others that it is near; links that are there already stay."""
    if not others:
        return
    there = {row[0] for row in _THERE.rows(connection, {"of": item_id})}
    new = [(item_id, each) for each in sorted(set(others) - {item_id, *there})]
    if new:
        _LINKED.run_many(connection, ("item", "other"), new)


_THERE: Final = Prepared(select(LINK.c.other).where(LINK.c.item == bindparam("of")))
_LINKED: Final = Prepared(insert(LINK).values(item=bindparam("item"), other=bindparam("other")))


def unlink(connection: Connection, ids: Collection[str]) -> None:
    """Remove all links of these memories."""
    # A link is one row, written when the newer memory was saved, and is read in both directions.
    for some in portions(ids):
        connection.execute(delete(LINK).where(or_(LINK.c.item.in_(some), LINK.c.other.in_(some))))


def linked(
    connection: Connection, ids: Collection[str], parts: Sequence[Reach], user_id: str
) -> Mapping[str, tuple[MemoryItem, ...]]:
    """Of each of ``ids`` the active memories that it is linked with and the reach covers, newest first."""
    pairs: set[tuple[str, str]] = set()
    for some in portions(ids):
        query = select(LINK.c.item, LINK.c.other)
        rows = connection.execute(query.where(or_(LINK.c.item.in_(some), LINK.c.other.in_(some))))
        pairs |= {(row.item, row.other) for row in rows}
    known = by_ids(connection, {each for pair in pairs for each in pair}, parts, user_id)
    found: dict[str, set[str]] = {}
    for pair in pairs:
        for one, other in (pair, pair[::-1]):
            if one in ids and other in known and known[other].is_searchable:
                found.setdefault(one, set()).add(other)
    return {
        one: tuple(sorted((known[other] for other in others), key=said_last, reverse=True))
        for one, others in found.items()
    }


def settled(connection: Connection, item_id: str) -> bool:
    """Whether a model or a person decided which memories this one replaces."""
    return bool(connection.execute(select(ITEM.c.settled).where(ITEM.c.id == item_id)).scalar())
