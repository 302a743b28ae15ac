"""Memories that give way to another one."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from zeus_runtime.memory import records

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from zeus_runtime.memory.items import Caller, MemoryItem
    from zeus_runtime.memory.vectors import VectorStore


def supersede(
    connection: Connection,
    vectors: VectorStore,
    caller: Caller,
    items: Iterable[MemoryItem],
    *,
    by: str,
    at: datetime,
    place: records.MemoryPlace,
) -> tuple[str, ...]:
    """Write that ``items`` hold no more since ``at``, with their histories and without their vectors.

    Args:
        by: the id of the memory that takes their place.
        place: of all of them, with this change counted.

    Returns:
        their ids; a vector store that is not in the transaction has their vectors still.
    """
    ids = []
    for each in items:
        old = records.new_version(each, at, status="superseded", superseded_by=by, valid_until=at)
        records.rewrite(connection, old, place)
        records.record(connection, "superseded", caller.user_id, at, old)
        ids.append(each.id)
    if vectors.transactional:
        vectors.remove(connection, ids)
    return tuple(ids)
