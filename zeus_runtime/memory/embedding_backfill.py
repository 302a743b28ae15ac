"""Vectors that come after their rows: of memories saved while no model could be asked, or embedded by another one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from sqlalchemy import and_, or_

from zeus_runtime.memory import records
from zeus_runtime.memory.embedding import Embedded
from zeus_runtime.memory.items import Caller, Embedding, MemoryItem
from zeus_runtime.memory.permissions import Reach, reach
from zeus_runtime.memory.turns import in_context, turn_of
from zeus_runtime.memory.vectors import Entry
from zeus_runtime.store.memory_tables import ITEM

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection

    from zeus_runtime.memory.database import MemoryDatabase
    from zeus_runtime.memory.vectors import VectorStore


class LateVectors:
    """The vectors of one database's memories, written later than their rows.

    Args:
        database: where the rows are.
        vectors: where the vectors are.
    """

    def __init__(self, database: MemoryDatabase, vectors: VectorStore) -> None:
        self._database = database
        self._vectors = vectors

    async def without(
        self,
        caller: Caller | None,
        embedding: Embedding,
        *,
        any_model: bool,
        limit: int,
        but_of: Collection[str] = (),
        own: bool = False,
    ) -> tuple[list[MemoryItem], int]:
        """Some of the caller's items that have no vector, or none of this model, and how many there are in all.

        Args:
            caller: None for everybody's.
            but_of: authors whose items are left out.
            own: only those that the caller wrote; those of others in a project may be embedded by their own model.
        """

        def work(connection: Connection) -> tuple[list[MemoryItem], int]:
            where = records.not_embedded_with(embedding, any_model=any_model, but_of=but_of)
            if caller is not None:
                mine = ITEM.c.created_by == caller.user_id if own else _concerns(caller)
                where = and_(mine, where)
            return records.items(connection, where, limit=limit), records.count(connection, where)

        return await (self._database.keep_up(work) if caller is None else self._database.read(work, caller))

    async def texts(self, items: Sequence[MemoryItem], caller: Caller | None) -> list[str]:
        """The text of each item as it is embedded (``turns.in_context``).

        Args:
            caller: on whose behalf; None for everybody's.
        """

        def work(connection: Connection) -> list[MemoryItem | None]:
            return records.turns_before(connection, items)

        if all(turn_of(item.source_id) is None for item in items):
            return [item.content for item in items]
        earlier = await (
            self._database.keep_up(work) if caller is None else self._database.read(work, caller)
        )
        return [in_context(item, previous) for item, previous in zip(items, earlier, strict=True)]

    async def put(self, embedded: Sequence[tuple[MemoryItem, Embedded]]) -> int:
        """Keep the vectors of items that are still as they were; how many those are."""
        if not embedded:
            return 0
        embedding = embedded[0][1].embedding
        versions = {item.id: item.version for item, _ in embedded}

        def work(connection: Connection) -> int:
            # A memory that was changed while the model embedded its old text has another version, and waits for its
            # new vector.
            done = records.mark_embedded(connection, versions, embedding)
            # In a separate store, a vector is written before the row that names it is committed, never the reverse.
            self._vectors.put(
                connection,
                [Entry(item, each.embedding, each.vector) for item, each in embedded if item.id in done],
            )
            return len(done)

        return await self._database.keep_up(work)


def _concerns(caller: Caller) -> ColumnElement[bool]:
    parts: tuple[Reach, ...] = reach(caller, "read")
    return or_(ITEM.c.created_by == caller.user_id, records.reach_filter(parts, caller.user_id))
