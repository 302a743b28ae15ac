"""Memory items as rows: written, found and removed, always within what the caller may reach.

Functions of a connection, inside a transaction that ``begin_write`` or ``begin_read`` opened first. Who changes items
of a place holds its row (``lock_place``), so that looking for neighbours and inserting are one step for everybody.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from sqlalchemy import (
    ARRAY,
    Text,
    and_,
    any_,
    bindparam,
    delete,
    false,
    func,
    insert,
    literal,
    or_,
    select,
    text,
    update,
)

from zeus_runtime.memory.items import Caller, Embedding, MemoryItem, MemoryType, Scope, Status
from zeus_runtime.memory.normalise import duplicate_key
from zeus_runtime.memory.permissions import Grant, Operation, Reach, reach
from zeus_runtime.memory.retrieval.words import indexed_words, word_column
from zeus_runtime.store.memory_tables import EXTRACTION, GONE, HISTORY, ITEM, PLACE, secures_deletes
from zeus_runtime.store.prepared import Prepared, sqlite_driver

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection, Select

Action: TypeAlias = Literal["stored", "updated", "superseded", "archived", "restored", "imported", "deleted"]

GONE_KEPT: Final = 5_000
"""Changes of a place for which removals are remembered; who holds an older copy of the place reads it anew."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_SAME: Final = frozenset(
    "id content memory_type scope scope_id created_by source source_id confidence visibility status subject trust "
    "superseded_by version".split()
)


class Change(NamedTuple):
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


@dataclass(frozen=True)
class Place:
    """The row of a user, project or session, held until the transaction ends."""

    key: int
    changes: int


def to_ms(time: datetime) -> int:
    """Milliseconds since 1970, rounded down."""
    return (time - _EPOCH) // _MILLISECOND


def from_ms(milliseconds: int) -> datetime:
    """The UTC time of so many milliseconds since 1970."""
    return _EPOCH + milliseconds * _MILLISECOND


def begin_write(connection: Connection) -> None:
    """Take SQLite's write lock now: a transaction that reads first and writes then could be refused in between.

    What is deleted is overwritten with zeros.
    """
    raw = sqlite_driver(connection)
    if raw is not None:
        raw.execute("PRAGMA secure_delete=ON")
        if not raw.in_transaction:
            raw.execute("BEGIN IMMEDIATE")


def begin_read(connection: Connection) -> None:
    """See one state of the database in all statements that follow (SQLite)."""
    raw = sqlite_driver(connection)
    if raw is not None and not raw.in_transaction:
        raw.execute("BEGIN")


def lock(connection: Connection, name: str) -> None:
    """Let nobody else hold the lock of this name until the transaction ends; on SQLite there is one writer anyway."""
    if connection.dialect.name == "postgresql":
        number = int.from_bytes(hashlib.sha256(f"zeus memory {name}".encode()).digest()[:8], signed=True)
        connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": number})


def lock_place(connection: Connection, scope: Scope, scope_id: str) -> Place:
    """The place's row, made if it is new; nobody else changes items of it until the transaction ends."""
    which = {"scope": scope, "scope_id": scope_id}
    found = _PLACE.rows(connection, which)
    if not found:
        connection.execute(_NEW_PLACE, which)
        found = _PLACE.rows(connection, which)
    ((key, changes),) = found
    return Place(key, changes)


_PLACE: Final = Prepared(
    select(PLACE.c.key, PLACE.c.changes)
    .where(PLACE.c.scope == bindparam("scope"), PLACE.c.scope_id == bindparam("scope_id"))
    .with_for_update()
)
_NEW_PLACE = text(
    "INSERT INTO memory_place (scope, scope_id, changes) VALUES (:scope, :scope_id, 0)"
    " ON CONFLICT (scope, scope_id) DO NOTHING"
)
_COUNT_CHANGE: Final = Prepared(
    update(PLACE).where(PLACE.c.key == bindparam("place")).values(changes=bindparam("now"))
)


def changed(connection: Connection, place: Place) -> Place:
    """Count one more change of the place, for the items that are written next."""
    _COUNT_CHANGE.run(connection, {"place": place.key, "now": place.changes + 1})
    return Place(place.key, place.changes + 1)


def reach_filter(parts: Sequence[Reach], user_id: str) -> ColumnElement[bool]:
    """A reach as a condition on the rows of items; nothing qualifies for an empty one."""
    return _within(_shape(parts), _whose(parts, user_id).__getitem__)


def places(connection: Connection, parts: Sequence[Reach]) -> list[int]:
    """The keys of the places of a reach that have a row; items are found by these, which the indexes begin with."""
    if not parts:
        return []
    wanted = or_(*(and_(PLACE.c.scope == part.scope, PLACE.c.scope_id == part.scope_id) for part in parts))
    return list(connection.execute(select(PLACE.c.key).where(wanted)).scalars())


def write(connection: Connection, item: MemoryItem, place: Place) -> None:
    """Insert ``item``, as of the place's last change."""
    _INSERT_ITEM.run(connection, _values(item, place, connection.dialect.name))


def rewrite(connection: Connection, item: MemoryItem, place: Place) -> None:
    """Put ``item`` in the place of its former version."""
    _UPDATE_ITEM.run(connection, {"which": item.id, **_values(item, place, connection.dialect.name)})


_COLUMNS: Final[dict[str, Any]] = {
    column.name: bindparam(column.name) for column in ITEM.columns if column.name != "key"
}
_INSERT_ITEM: Final = Prepared(insert(ITEM).values(_COLUMNS).inline())
_UPDATE_ITEM: Final = Prepared(update(ITEM).where(ITEM.c.id == bindparam("which")).values(_COLUMNS))


def _values(item: MemoryItem, place: Place, dialect: str) -> dict[str, Any]:
    searched = item.status == "active" and item.trust != "quarantined"
    words = indexed_words(item.content) if searched else ()
    return {
        **{name: getattr(item, name) for name in _SAME},
        "place": place.key,
        "changed": place.changes,
        "digest": digest(item.content),
        "words": word_column(place.key, words, dialect),
        "word_count": len(words),
        "valid_from_ms": _ms(item.valid_from),
        "valid_until_ms": _ms(item.valid_until),
        "embedding_model": item.embedding.model if item.embedding else None,
        "embedding_dimension": item.embedding.dimension if item.embedding else None,
        "created_ms": to_ms(item.created_at),
        "updated_ms": to_ms(item.updated_at),
        "last_used_ms": _ms(item.last_used_at),
    }


@lru_cache(64)
def digest(content: str) -> str:
    """Equal for texts that ``duplicate_key`` takes for the same."""
    return hashlib.sha256(duplicate_key(content).encode()).hexdigest()[:32]


def _ms(time: datetime | None) -> int | None:
    return None if time is None else to_ms(time)


def _time(milliseconds: int | None) -> datetime | None:
    return None if milliseconds is None else from_ms(milliseconds)


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
    times = (from_ms(created), from_ms(updated), _time(used))
    embedding = None if model is None else _embedding(model, dimension)
    last = (_time(since), _time(until), *row[17:19], embedding, row[21])
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
        rows = _any(_shape(parts)).rows(connection, {"ids": wanted, **_whose(parts, user_id)})
        return {row[0]: item_of(row) for row in rows}
    if 0 < len(wanted) <= _FEW:
        values = {**_listed(wanted), **_whose(parts, user_id), "digest": ""}
        rows = _few(_shape(parts)).rows(connection, values)
        return {row[0]: item_of(row) for row in rows}
    query = _by_ids(tuple(parts), user_id)
    for start in range(0, len(wanted), _MOST_PARAMETERS):
        some = {"ids": wanted[start : start + _MOST_PARAMETERS]}
        found |= {row[0]: item_of(row) for row in connection.execute(query, some)}
    return found


def alike(
    connection: Connection, content: str, ids: Collection[str], parts: Sequence[Reach], user_id: str
) -> list[tuple[MemoryItem, bool]]:
    """Items within the reach: those of ``ids`` (a dozen or so), and active ones that say the same as ``content``.

    Returns:
        each with whether it says the same: it differs in nothing but case, spacing and closing punctuation.
    """
    wanted, same = list(ids), digest(content)
    values = {**_listed(wanted[:_FEW]), **_whose(parts, user_id), "digest": same}
    rows = _few(_shape(parts)).rows(connection, values)
    found = [(item_of(row), row[-1] == same) for row in rows]
    return found + [(item, False) for item in by_ids(connection, wanted[_FEW:], parts, user_id).values()]


@lru_cache(64)
def _by_ids(parts: tuple[Reach, ...], user_id: str) -> Select[Any]:
    wanted = ITEM.c.id.in_(bindparam("ids", expanding=True))
    return select(*_READ).where(wanted, reach_filter(parts, user_id))


_Shape: TypeAlias = tuple[tuple[Scope, tuple[Grant, ...]], ...]
"""A reach without whose it is."""


@lru_cache(64)
def _any(shape: _Shape) -> Prepared:
    """A server takes a list of any length, in half the time that it takes to plan one by one."""
    ids = ITEM.c.id == any_(bindparam("ids", type_=ARRAY(Text)))
    return Prepared(select(*_READ).where(ids, _within(shape, bindparam)))


@lru_cache(64)
def _few(shape: _Shape) -> Prepared:
    """For everybody: a list of any length or somebody's name in it would have the statement compiled anew."""
    ids = ITEM.c.id.in_([bindparam(f"id{number}") for number in range(_FEW)])
    same = and_(ITEM.c.digest == bindparam("digest"), ITEM.c.status == "active")
    return Prepared(select(*_READ, ITEM.c.digest).where(or_(ids, same), _within(shape, bindparam)))


def _within(shape: _Shape, value: Callable[[str], Any]) -> ColumnElement[bool]:
    """Rows within a reach.

    Args:
        value: of each name that ``_whose`` gives, or a parameter in its place.
    """
    conditions = [
        and_(
            ITEM.c.scope == scope,
            ITEM.c.scope_id == value(f"scope_id{number}"),
            ITEM.c.visibility.in_([literal(each) for each in sorted(grant.visibilities)]),
            *([ITEM.c.created_by == value("user")] if grant.own else []),
        )
        for number, (scope, grants) in enumerate(shape)
        for grant in grants
    ]
    return or_(*conditions) if conditions else false()


def _shape(parts: Sequence[Reach]) -> _Shape:
    return tuple((part.scope, part.grants) for part in parts)


def _whose(parts: Sequence[Reach], user_id: str) -> dict[str, str]:
    return {"user": user_id, **{f"scope_id{number}": part.scope_id for number, part in enumerate(parts)}}


def _listed(ids: Sequence[str]) -> dict[str, str]:
    return {f"id{number}": ids[number] if number < len(ids) else "" for number in range(_FEW)}


_FEW: Final = 12
_MOST_PARAMETERS: Final = 500


def find(connection: Connection, item_id: str, caller: Caller, operation: Operation) -> MemoryItem | None:
    """The item, if ``caller`` may do this with it; None if they may not or there is none."""
    return by_ids(connection, [item_id], reach(caller, operation), caller.user_id).get(item_id)


def listed(
    connection: Connection,
    parts: Sequence[Reach],
    user_id: str,
    *,
    status: Status | None = "active",
    memory_type: MemoryType | None = None,
    limit: int | None = None,
    offset: int = 0,
) -> list[MemoryItem]:
    """Items within the reach, last changed first."""
    query = select(*_READ).where(
        ITEM.c.place.in_(places(connection, parts)),
        reach_filter(parts, user_id),
        *([] if status is None else [ITEM.c.status == status]),
        *([] if memory_type is None else [ITEM.c.memory_type == memory_type]),
    )
    query = query.order_by(ITEM.c.updated_ms.desc(), ITEM.c.key.desc()).offset(offset)
    return [item_of(row) for row in connection.execute(query if limit is None else query.limit(limit))]


def superseded_by(connection: Connection, ids: Collection[str]) -> list[MemoryItem]:
    """The items whose place one of ``ids`` took, and those whose place they had taken, and so on."""
    found: dict[str, MemoryItem] = {}
    next_ids = set(ids)
    while next_ids:
        before = items(connection, ITEM.c.superseded_by.in_(sorted(next_ids)))
        next_ids = {item.id for item in before} - found.keys()
        found |= {item.id: item for item in before}
    return list(found.values())


def remove(connection: Connection, ids: Collection[str], place: Place) -> None:
    """Remove items of the place with the contents of their histories; what happened when stays."""
    wanted = sorted(ids)
    keys = list(connection.execute(select(ITEM.c.key).where(ITEM.c.id.in_(wanted))).scalars())
    connection.execute(update(HISTORY).where(HISTORY.c.item.in_(wanted)).values(content=""))
    connection.execute(delete(ITEM).where(ITEM.c.id.in_(wanted)))
    if keys:
        gone = [{"place": place.key, "changed": place.changes, "item": key} for key in keys]
        connection.execute(insert(GONE), gone)
    connection.execute(
        delete(GONE).where(GONE.c.place == place.key, GONE.c.changed < place.changes - GONE_KEPT)
    )
    if connection.dialect.name == "sqlite" and not secures_deletes():
        worn = _levels(connection) > _WORN
        connection.exec_driver_sql(
            _REBUILD if worn else "INSERT INTO memory_words(memory_words) VALUES ('optimize')"
        )


def rebuild_words(connection: Connection) -> None:
    """Make the lexical index anew from the rows (SQLite), be it as broken as it may."""
    if _levels(connection) > _WORN:
        # FTS5 does not even open an index with so many levels: an empty list of levels comes first.
        connection.exec_driver_sql("UPDATE memory_words_data SET block = zeroblob(7) WHERE id = 10")
    connection.exec_driver_sql(_REBUILD)


def _levels(connection: Connection) -> int:
    """Bytes of the list of the index's levels."""
    return int(
        connection.exec_driver_sql("SELECT length(block) FROM memory_words_data WHERE id = 10").scalar_one()
    )


_REBUILD: Final = "INSERT INTO memory_words(memory_words) VALUES ('rebuild')"
_WORN: Final = 1_000
"""Before SQLite 3.42 each ``optimize`` of FTS5 leaves an empty level behind, and an index of 2,000 levels (4,000 bytes)
cannot be read any more; made anew, it has one."""


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


def history(connection: Connection, item_id: str) -> list[Change]:
    """What happened to an item, in order."""
    names = [each.name for each in (HISTORY.c.item, HISTORY.c.version, HISTORY.c.action, HISTORY.c.by)]
    query = select(*(HISTORY.c[name] for name in names), HISTORY.c.at_ms, HISTORY.c.content)
    rows = connection.execute(query.where(HISTORY.c.item == item_id).order_by(HISTORY.c.key))
    return [Change(row[0], row[1], row[2], row[3], from_ms(row[4]), row[5]) for row in rows]


def extractions(connection: Connection, session: str, since: datetime) -> int:
    """How many memories the agent saved of its own accord in the session after ``since``."""
    query = select(func.count()).select_from(EXTRACTION)
    where = query.where(EXTRACTION.c.session == session, EXTRACTION.c.at_ms > to_ms(since))
    return int(connection.execute(where).scalar_one())


def record_extraction(connection: Connection, session: str, at: datetime, since: datetime) -> None:
    """Count one more, and forget those that no window reaches any more."""
    connection.execute(
        delete(EXTRACTION).where(EXTRACTION.c.session == session, EXTRACTION.c.at_ms <= to_ms(since))
    )
    connection.execute(insert(EXTRACTION), {"session": session, "at_ms": to_ms(at)})


def mark_embedded(connection: Connection, versions: Mapping[str, int], embedding: Embedding) -> set[str]:
    """Write which model the vectors of these items are from, where the item is still in that version and searched.

    Returns:
        the ids for which it was.
    """
    done: set[str] = set()
    for item_id, version in versions.items():
        where = and_(ITEM.c.id == item_id, ITEM.c.version == version, searched())
        values = {"embedding_model": embedding.model, "embedding_dimension": embedding.dimension}
        if connection.execute(update(ITEM).where(where).values(values)).rowcount:
            done.add(item_id)
    return done


def unmark_embedded(connection: Connection, ids: Iterable[str]) -> None:
    """Write that these items have no vector."""
    for item_id in ids:
        values = {"embedding_model": None, "embedding_dimension": None}
        connection.execute(update(ITEM).where(ITEM.c.id == item_id).values(values))


def searched() -> ColumnElement[bool]:
    """The condition under which an item can be found at all."""
    return and_(ITEM.c.status == "active", ITEM.c.trust != "quarantined")


def not_embedded_with(
    embedding: Embedding, *, any_model: bool, but_of: Collection[str] = ()
) -> ColumnElement[bool]:
    """Items that can be found and have no vector, or with ``any_model`` none of this model and dimension.

    Args:
        but_of: authors whose items are left out.
    """
    missing: ColumnElement[bool] = ITEM.c.embedding_model.is_(None)
    if any_model:
        missing = or_(
            missing,
            ITEM.c.embedding_model != embedding.model,
            ITEM.c.embedding_dimension != embedding.dimension,
        )
    found = and_(searched(), missing)
    return and_(found, ITEM.c.created_by.not_in(but_of)) if but_of else found


def exists(connection: Connection, item_id: str) -> bool:
    """Whether there is such an item, whoever may see it."""
    return connection.execute(select(ITEM.c.key).where(ITEM.c.id == item_id)).first() is not None


def embedded_ids(connection: Connection) -> set[str]:
    """All items whose row says that they have a vector."""
    query = select(ITEM.c.id).where(ITEM.c.embedding_model.is_not(None), searched())
    return set(connection.execute(query).scalars())


def embedded(connection: Connection) -> dict[str, tuple[Embedding, int]]:
    """All items whose row says that they have a vector: of which model it is, and of which version of the item."""
    query = select(ITEM.c.id, ITEM.c.embedding_model, ITEM.c.embedding_dimension, ITEM.c.version)
    rows = connection.execute(query.where(ITEM.c.embedding_model.is_not(None), searched()))
    return {row[0]: (Embedding(row[1], row[2]), row[3]) for row in rows}


def count(connection: Connection, where: ColumnElement[bool]) -> int:
    """How many items ``where`` holds for."""
    return int(connection.execute(select(func.count()).select_from(ITEM).where(where)).scalar_one())


def mark_used(connection: Connection, used: Mapping[str, datetime]) -> None:
    """Write when these items were last used; the items count as unchanged."""
    if used and connection.dialect.name == "postgresql":
        values = {"ids": list(used), "times": [to_ms(at) for at in used.values()]}
        connection.exec_driver_sql(_MARK_ALL_USED, values)
    elif used:
        rows = [{"which": item_id, "used_ms": to_ms(at)} for item_id, at in used.items()]
        connection.execute(_MARK_USED, rows)


_MARK_ALL_USED = """
UPDATE memory_item SET last_used_ms = used.at
FROM unnest(%(ids)s::text[], %(times)s::bigint[]) AS used (id, at) WHERE memory_item.id = used.id"""
_MARK_USED = update(ITEM).where(ITEM.c.id == bindparam("which")).values(last_used_ms=bindparam("used_ms"))


def new_version(item: MemoryItem, at: datetime, **changes: Any) -> MemoryItem:
    """``item`` with ``changes`` as its next version."""
    return replace(item, **changes, updated_at=at, version=item.version + 1)


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
