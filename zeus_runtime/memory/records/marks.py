"""Which items have a vector, of which model, as their rows say."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from sqlalchemy import and_, or_, select, update

from zeus_runtime.memory.items import Embedding
from zeus_runtime.memory.records.reading import searchable
from zeus_runtime.store.memory_tables import ITEM

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection


def mark_embedded(connection: Connection, versions: Mapping[str, int], embedding: Embedding) -> set[str]:
    """Write which model the vectors of these items are from, where the item is still in that version and searchable.

    Returns:
        the ids for which it was.
    """
    done: set[str] = set()
    for item_id, version in versions.items():
        where = and_(ITEM.c.id == item_id, ITEM.c.version == version, searchable())
        values = {"embedding_model": embedding.model, "embedding_dimension": embedding.dimension}
        if connection.execute(update(ITEM).where(where).values(values)).rowcount:
            done.add(item_id)
    return done


def unmark_embedded(connection: Connection, ids: Iterable[str]) -> None:
    """Write that these items have no vector."""
    for item_id in ids:
        values = {"embedding_model": None, "embedding_dimension": None}
        connection.execute(update(ITEM).where(ITEM.c.id == item_id).values(values))


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
    found = and_(searchable(), missing)
    return and_(found, ITEM.c.created_by.not_in(but_of)) if but_of else found


def embedded_ids(connection: Connection) -> set[str]:
    """All items whose row says that they have a vector."""
    query = select(ITEM.c.id).where(ITEM.c.embedding_model.is_not(None), searchable())
    return set(connection.execute(query).scalars())


def embedded(connection: Connection) -> dict[str, tuple[Embedding, int]]:
    """All items whose row says that they have a vector: of which model it is, and of which version of the item."""
    query = select(ITEM.c.id, ITEM.c.embedding_model, ITEM.c.embedding_dimension, ITEM.c.version)
    rows = connection.execute(query.where(ITEM.c.embedding_model.is_not(None), searchable()))
    return {row[0]: (Embedding(row[1], row[2]), row[3]) for row in rows}
