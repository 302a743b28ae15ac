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
    since: datetime | None = None,
) -> tuple[str, ...]:
    """Write that ``items`` hold no more, with their histories and without their vectors.

    Args:
        by: the id of the memory that takes their place.
        at: now.
        place: of all of them, with this change counted.
        since: when that memory begins to hold; None: now. Until a time in the future the items stay active, linked with
            the memory that follows them.

    Returns:
        their ids; a vector store that is not in the transaction has their vectors still.
    """
    ids = []
    for each in items:
        action, old = succeeded(each, by, at, since)
        # It still holds until `since`; the link lets it be shown behind the memory that follows it.
        if old.status == each.status:
            records.link(connection, by, [each.id])
        records.rewrite(connection, old, place)
        records.record(connection, action, caller.user_id, at, old)
        ids.append(each.id)
    if vectors.transactional:
        vectors.remove(connection, ids)
    return tuple(ids)


def succeeded(
    item: MemoryItem, by: str, at: datetime, since: datetime | None
) -> tuple[records.Action, MemoryItem]:
    """What happens to ``item`` when the memory ``by`` takes its place, and its next version.

    Args:
        at, since: as for ``supersede``.
    """
    until = _end(item, at if since is None else since, at)
    if since is not None and since > at:
        return "updated", records.new_version(item, at, valid_until=until, embedding=None)
    return "superseded", records.new_version(
        item, at, status="superseded", superseded_by=by, valid_until=until
    )


def _end(item: MemoryItem, since: datetime, at: datetime) -> datetime:
    """When an item ends to hold: when its successor begins to, unless it ended before or began later."""
    if item.valid_until is not None and item.valid_until <= since:
        return item.valid_until
    return since if item.valid_from is None or item.valid_from < since else at
