"""Items read back from their rows, always within what the caller may reach."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import fields
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import ARRAY, Text, and_, any_, bindparam, func, not_, or_, select

from zeus_runtime.memory.items import Caller, Embedding, HiddenMemory, MemoryItem, MemoryType, Status
from zeus_runtime.memory.permissions import Operation, Reach, reach
from zeus_runtime.memory.records.columns import SAID_MS, digest, from_ms, time_or_none, to_ms
from zeus_runtime.memory.records.place import MemoryPlace, lock_place, places
from zeus_runtime.memory.records.within import Shape, reach_filter, shape, whose, within
from zeus_runtime.memory.turns import after, before
from zeus_runtime.store.compiled_statements import Prepared
from zeus_runtime.store.memory_tables import ITEM, PLACE

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection, Select

_READ: Final = (
    ITEM.c.id,
    ITEM.c.content,
    ITEM.c.memory_type,
    ITEM.c.scope,
    ITEM.c.scope_id,
    ITEM.c.created_by,
    ITEM.c.source,
    ITEM.c.confidence,
    ITEM.c.created_ms,
    ITEM.c.updated_ms,
    ITEM.c.last_used_ms,
    ITEM.c.source_id,
    ITEM.c.visibility,
    ITEM.c.status,
    ITEM.c.subject,
    ITEM.c.valid_from_ms,
    ITEM.c.valid_until_ms,
    ITEM.c.superseded_by,
    ITEM.c.trust,
    ITEM.c.embedding_model,
    ITEM.c.embedding_dimension,
    ITEM.c.version,
)
"""In the order of the fields of ``MemoryItem``, the embedding as its two parts."""


def item_of(row: Sequence[Any]) -> MemoryItem:
    """The item of a row of ``_READ``, which was an item when it was written: it is not checked again."""
    (*first, created, updated, used), middle, (since, until) = row[:11], row[11:15], row[15:17]
    model, dimension = row[19:21]
    times = (from_ms(created), from_ms(updated), time_or_none(used))
    embedding = None if model is None else _embedding(model, dimension)
    last = (time_or_none(since), time_or_none(until), *row[17:19], embedding, row[21])
    # Without `__post_init__`, whose checks take longer than reading the row.
    item = object.__new__(MemoryItem)
    vars(item).update(zip(_FIELDS, (*first, *times, *middle, *last), strict=True))
    return item


_FIELDS: Final = tuple(each.name for each in fields(MemoryItem))
_embedding: Final = lru_cache(64)(Embedding)


def items(
    connection: Connection, where: ColumnElement[bool], *, newest: bool = False, limit: int | None = None
) -> list[MemoryItem]:
    """The items that ``where`` holds for, oldest or newest first."""
    order = (ITEM.c.updated_ms.desc(), ITEM.c.key.desc()) if newest else (ITEM.c.key,)
    query = select(*_READ).where(where).order_by(*order)
    return [item_of(row) for row in connection.execute(query if limit is None else query.limit(limit))]


def by_ids(
    connection: Connection, ids: Collection[str], parts: Sequence[Reach], user_id: str
) -> dict[str, MemoryItem]:
    """Those of ``ids`` that are within the reach."""
    found: dict[str, MemoryItem] = {}
    wanted = list(ids)
    if wanted and connection.dialect.name == "postgresql":
        rows = _any(shape(parts)).rows(connection, {"ids": wanted, **whose(parts, user_id)})
        return {row[0]: item_of(row) for row in rows}
    if 0 < len(wanted) <= _FEW:
        # No item has the digest "", so only the ids count.
        values = {**_listed(wanted), **whose(parts, user_id), "digest": ""}
        rows = _few(shape(parts)).rows(connection, values)
        return {row[0]: item_of(row) for row in rows}
    query = _by_ids(tuple(parts), user_id)
    for some in portions(wanted):
        found |= {row[0]: item_of(row) for row in connection.execute(query, {"ids": some})}
    return found


def alike(
    connection: Connection, content: str, ids: Collection[str], parts: Sequence[Reach], user_id: str
) -> list[tuple[MemoryItem, bool]]:
    """Items within the reach: those of ``ids`` (a dozen or so), and active ones that say the same as ``content``.

    Returns:
        each with whether it says the same: it differs in nothing but case, spacing and closing punctuation.
    """
    wanted, same = list(ids), digest(content)
    values = {**_listed(wanted[:_FEW]), **whose(parts, user_id), "digest": same}
    rows = _few(shape(parts)).rows(connection, values)
    found = [(item_of(row), row[-1] == same) for row in rows]
    return found + [(item, False) for item in by_ids(connection, wanted[_FEW:], parts, user_id).values()]


@lru_cache(64)
def _by_ids(parts: tuple[Reach, ...], user_id: str) -> Select[Any]:
    wanted = ITEM.c.id.in_(bindparam("ids", expanding=True))
    return select(*_READ).where(wanted, reach_filter(parts, user_id))


@lru_cache(64)
def _any(shape: Shape) -> Prepared:
    """A server takes a list of any length, in half the time that it takes to plan one by one."""
    ids = ITEM.c.id == any_(bindparam("ids", type_=ARRAY(Text)))
    return Prepared(select(*_READ).where(ids, within(shape, bindparam)))


@lru_cache(64)
def _few(shape: Shape) -> Prepared:
    """Shared by all callers: a list of any length, or a user's name in it, would make SQLAlchemy compile it again."""
    ids = ITEM.c.id.in_([bindparam(f"id{number}") for number in range(_FEW)])
    same = and_(ITEM.c.digest == bindparam("digest"), ITEM.c.status == "active")
    return Prepared(select(*_READ, ITEM.c.digest).where(or_(ids, same), within(shape, bindparam)))


def _listed(ids: Sequence[str]) -> dict[str, str]:
    # No item has the id "", so the list is always of one length and its statement is compiled once.
    return {f"id{number}": ids[number] if number < len(ids) else "" for number in range(_FEW)}


_FEW: Final = 12
# SQLite takes 32,766 parameters in a statement, before 3.32 only 999; some statements name each id twice.
_MOST_IDS: Final = 499


def find(connection: Connection, item_id: str, caller: Caller, operation: Operation) -> MemoryItem | None:
    """The item, if ``caller`` may do this with it; None if they may not or there is none."""
    return by_ids(connection, [item_id], reach(caller, operation), caller.user_id).get(item_id)


def held(
    connection: Connection, item_id: str, caller: Caller, operation: Operation
) -> tuple[MemoryItem, MemoryPlace] | None:
    """The item, if the caller may do this with it, and its place, locked from here on."""
    item = find(connection, item_id, caller, operation)
    if item is None:
        return None
    place = lock_place(connection, item.scope, item.scope_id)
    # Read again: it may have been changed or deleted while this transaction waited for the place.
    item = find(connection, item_id, caller, operation)
    return None if item is None else (item, place)


def listed(
    connection: Connection,
    parts: Sequence[Reach],
    user_id: str,
    *,
    status: Status | None = "active",
    memory_type: MemoryType | None = None,
    said: tuple[datetime | None, datetime | None] = (None, None),
    limit: int | None = None,
    offset: int = 0,
) -> list[MemoryItem]:
    """Items within the reach, last changed first.

    Args:
        said: from when on, and before when, they were said.
    """
    since, until = said
    query = select(*_READ).where(
        ITEM.c.place.in_(places(connection, parts)),
        reach_filter(parts, user_id),
        *([] if status is None else [ITEM.c.status == status]),
        *([] if memory_type is None else [ITEM.c.memory_type == memory_type]),
        *([] if since is None else [to_ms(since) <= SAID_MS]),
        *([] if until is None else [to_ms(until) > SAID_MS]),
    )
    query = query.order_by(ITEM.c.updated_ms.desc(), ITEM.c.key.desc()).offset(offset)
    return [item_of(row) for row in connection.execute(query if limit is None else query.limit(limit))]


def hidden(
    connection: Connection,
    seen: Sequence[Reach],
    read: Sequence[Reach],
    user_id: str,
    *,
    status: Status | None = "active",
    limit: int | None = None,
) -> list[HiddenMemory]:
    """What is within the reach of who sees and not of who reads, last changed first."""
    query = select(ITEM.c.id, ITEM.c.created_by, ITEM.c.created_ms).where(
        ITEM.c.place.in_(places(connection, seen)),
        reach_filter(seen, user_id),
        not_(reach_filter(read, user_id)),
        *([] if status is None else [ITEM.c.status == status]),
    )
    query = query.order_by(ITEM.c.updated_ms.desc(), ITEM.c.key.desc())
    rows = connection.execute(query if limit is None else query.limit(limit))
    return [HiddenMemory(row[0], row[1], from_ms(row[2])) for row in rows]


def portions(ids: Collection[str]) -> Iterator[list[str]]:
    """The ids in order, as many at a time as a statement may name."""
    wanted = sorted(ids)
    yield from (wanted[start : start + _MOST_IDS] for start in range(0, len(wanted), _MOST_IDS))


def superseded_by(connection: Connection, ids: Collection[str]) -> list[MemoryItem]:
    """The items whose place one of ``ids`` took, and those whose place they had taken, and so on."""
    found: dict[str, MemoryItem] = {}
    next_ids = set(ids)
    while next_ids:
        before = [
            each for some in portions(next_ids) for each in items(connection, ITEM.c.superseded_by.in_(some))
        ]
        # Without those that are known, so that a circle of memories ends too.
        next_ids = {item.id for item in before} - found.keys()
        found |= {item.id: item for item in before}
    return list(found.values())


def searchable() -> ColumnElement[bool]:
    """``MemoryItem.is_searchable`` as a condition on rows."""
    return and_(ITEM.c.status == "active", ITEM.c.trust != "quarantined")


def written_order(connection: Connection, ids: Sequence[str]) -> dict[str, int]:
    """A number of each of these items, a dozen or so, that grows in the order in which they were written first."""
    rows = connection.execute(select(ITEM.c.id, ITEM.c.key).where(ITEM.c.id.in_(ids)))
    return {row[0]: row[1] for row in rows}


def turns_before(connection: Connection, items: Sequence[MemoryItem]) -> list[MemoryItem | None]:
    """Of each item the turn of the same conversation before it, in the same place; None where there is none."""
    return [_beside(connection, each, before(each.source_id)) for each in items]


def turn_after(connection: Connection, item: MemoryItem) -> MemoryItem | None:
    """The turn of the same conversation after ``item``, in the same place."""
    return _beside(connection, item, after(item.source_id))


def _beside(connection: Connection, item: MemoryItem, source_id: str | None) -> MemoryItem | None:
    if source_id is None:
        return None
    place = {"scope": item.scope, "scope_id": item.scope_id, "source": source_id}
    row = connection.execute(_TURN, place).first()
    return None if row is None else item_of(row)


_TURN: Final = (
    select(*_READ)
    .join(PLACE, PLACE.c.key == ITEM.c.place)
    .where(
        PLACE.c.scope == bindparam("scope"),
        PLACE.c.scope_id == bindparam("scope_id"),
        ITEM.c.source_id == bindparam("source"),
        searchable(),
    )
    .order_by(ITEM.c.key.desc())
    .limit(1)
)


def exists(connection: Connection, item_id: str) -> bool:
    """Whether there is such an item, whoever may see it."""
    return connection.execute(select(ITEM.c.key).where(ITEM.c.id == item_id)).first() is not None


def count(connection: Connection, where: ColumnElement[bool]) -> int:
    """How many items ``where`` holds for."""
    return int(connection.execute(select(func.count()).select_from(ITEM).where(where)).scalar_one())


def figures(connection: Connection, parts: Sequence[Reach], user_id: str) -> dict[str, dict[str, int]]:
    """The number of items within the reach by status; for active ones also by their other classes."""
    where = and_(ITEM.c.place.in_(places(connection, parts)), reach_filter(parts, user_id))
    found: dict[str, dict[str, int]] = {}
    for name in ("status", "scope", "memory_type", "source", "trust", "embedding_model"):
        column = ITEM.c[name]
        counted = and_(where, ITEM.c.status == "active") if name != "status" else where
        query = select(func.coalesce(column, "none"), func.count()).where(counted).group_by(column)
        rows = connection.execute(query).all()
        found[name] = dict(sorted((str(row[0]), int(row[1])) for row in rows))
    return found


def as_json(item: MemoryItem) -> dict[str, Any]:
    """An item as JSON; times in ISO 8601."""
    values = {each.name: getattr(item, each.name) for each in fields(item)}
    embedding = item.embedding
    return {
        **{
            name: value.isoformat() if isinstance(value, datetime) else value
            for name, value in values.items()
        },
        "embedding": embedding and {"model": embedding.model, "dimension": embedding.dimension},
    }
