"""Items written to their rows, changed and removed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import bindparam, delete, insert, select, update

from zeus_runtime.memory.items import MemoryItem
from zeus_runtime.memory.records.columns import SAID_MS, digest, from_ms, ms_or_none, to_ms
from zeus_runtime.memory.records.place import MemoryPlace, changed, lock_place
from zeus_runtime.memory.records.reading import portions
from zeus_runtime.memory.records.word_index import purge_words
from zeus_runtime.memory.retrieval.analysis import ANALYSIS
from zeus_runtime.memory.retrieval.named_times import time_column
from zeus_runtime.memory.retrieval.words import indexed_words, word_column
from zeus_runtime.store.compiled_statements import Prepared
from zeus_runtime.store.memory_tables import GONE, HISTORY, ITEM, PLACE, secures_deletes

if TYPE_CHECKING:
    from sqlalchemy import Connection

GONE_KEPT: Final = 5_000
"""Changes of a place for which removals are remembered; who holds an older copy of the place reads it anew."""

_SAME: Final = frozenset(
    "id content memory_type scope scope_id created_by source source_id confidence visibility status subject trust "
    "superseded_by version".split()
)


def write(
    connection: Connection, item: MemoryItem, place: MemoryPlace, *, settled: bool = False
) -> int | None:
    """Insert ``item``, as of the place's last change.

    Args:
        settled: a model or a person decided which memories it replaces.

    Returns:
        its key, where the database tells without being asked (SQLite).
    """
    row = {**values(item, place, connection.dialect.name), "settled": int(settled)}
    if connection.dialect.name == "sqlite":
        return _INSERT_ITEM.inserted(connection, row)
    _INSERT_ITEM.run(connection, row)
    return None


def rewrite(connection: Connection, item: MemoryItem, place: MemoryPlace) -> None:
    """Put ``item`` in the place of its former version."""
    _UPDATE_ITEM.run(connection, {"which": item.id, **values(item, place, connection.dialect.name)})


_COLUMNS: Final[dict[str, Any]] = {
    column.name: bindparam(column.name) for column in ITEM.columns if column.name not in ("key", "settled")
}
_INSERT_ITEM: Final = Prepared(insert(ITEM).values({**_COLUMNS, "settled": bindparam("settled")}).inline())
_UPDATE_ITEM: Final = Prepared(update(ITEM).where(ITEM.c.id == bindparam("which")).values(_COLUMNS))


def values(item: MemoryItem, place: MemoryPlace, dialect: str) -> dict[str, Any]:
    """What the columns hold of an item of the place, as of its last change."""
    # Nothing else is in the index of words, so no search has to filter its entries.
    words = indexed_words(item.content) if item.is_searchable else ()
    return {
        **{name: getattr(item, name) for name in _SAME},
        "place": place.key,
        "changed": place.changes,
        "digest": digest(item.content),
        "words": word_column(place.key, words, dialect),
        "word_count": len(words),
        "valid_from_ms": ms_or_none(item.valid_from),
        "valid_until_ms": ms_or_none(item.valid_until),
        "embedding_model": item.embedding.model if item.embedding else None,
        "embedding_dimension": item.embedding.dimension if item.embedding else None,
        "created_ms": to_ms(item.created_at),
        "updated_ms": to_ms(item.updated_at),
        "last_used_ms": ms_or_none(item.last_used_at),
        "times": time_column(item.content, item.said_at) if item.is_searchable else None,
    }


def reindexed(connection: Connection) -> int:
    """Index the words and times of one place anew that another analysis made, as a change of it; how many items it has.

    Returns:
        -1 if there is no such place any more.
    """
    row = connection.execute(_OUTDATED).first()
    if row is None:
        return -1
    # A change of the place, so that other processes read its items anew.
    place = changed(connection, lock_place(connection, row.scope, row.scope_id))
    rows = connection.execute(_CONTENTS, {"of_place": place.key}).all()
    values_of = []
    for key, content, said in rows:
        words = indexed_words(content)
        column = word_column(place.key, words, connection.dialect.name)
        found = {"words": column, "word_count": len(words), "times": time_column(content, from_ms(said))}
        values_of.append({"which": key, "changed": place.changes, **found})
    if values_of:
        connection.execute(_REINDEX, values_of)
    connection.execute(update(PLACE).where(PLACE.c.key == place.key).values(analysis=ANALYSIS))
    return len(rows)


_OUTDATED: Final = select(PLACE.c.scope, PLACE.c.scope_id).where(PLACE.c.analysis != ANALYSIS).limit(1)
_CONTENTS: Final = select(ITEM.c.key, ITEM.c.content, SAID_MS).where(
    ITEM.c.place == bindparam("of_place"), ITEM.c.status == "active", ITEM.c.trust != "quarantined"
)
_REINDEX: Final = (
    update(ITEM)
    .where(ITEM.c.key == bindparam("which"))
    .values({name: bindparam(name) for name in ("words", "word_count", "changed", "times")})
)


def remove(connection: Connection, ids: Collection[str], place: MemoryPlace) -> None:
    """Remove items of the place with the contents of their histories; actions and times remain."""
    keys: list[int] = []
    for some in portions(ids):
        # Before the rows go: other processes find removed items in their memory by these keys.
        keys += connection.execute(select(ITEM.c.key).where(ITEM.c.id.in_(some))).scalars()
        connection.execute(update(HISTORY).where(HISTORY.c.item.in_(some)).values(content=""))
        connection.execute(delete(ITEM).where(ITEM.c.id.in_(some)))
    if keys:
        gone = [{"place": place.key, "changed": place.changes, "item": key} for key in keys]
        connection.execute(insert(GONE), gone)
    connection.execute(
        delete(GONE).where(GONE.c.place == place.key, GONE.c.changed < place.changes - GONE_KEPT)
    )
    if connection.dialect.name == "sqlite" and not secures_deletes():
        purge_words(connection)


def new_version(item: MemoryItem, at: datetime, **changes: Any) -> MemoryItem:
    """``item`` with ``changes`` as its next version."""
    return replace(item, **changes, updated_at=at, version=item.version + 1)


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
