"""Memories removed with all that is made of them: rows, words, vectors, texts of histories, lines of profiles."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from sqlalchemy import and_, delete, func, select

from zeus_runtime.memory import records
from zeus_runtime.memory.items import Caller, MemoryItem
from zeus_runtime.memory.permissions import may
from zeus_runtime.store.memory_tables import EXTRACTION, ITEM

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from zeus_runtime.memory.database import MemoryDatabase
    from zeus_runtime.memory.vectors import VectorStore

RemovalCheck: TypeAlias = Callable[[MemoryItem, Sequence[MemoryItem]], None]


class Derived(Protocol):
    """What was made from memories and must go when they go, such as lines of a profile."""

    def forget(self, connection: Connection, ids: Collection[str]) -> None:
        """Remove what came from these items, in their own transaction."""
        ...


def forget_in_context(connection: Connection, vectors: VectorStore, item: MemoryItem) -> None:
    """Give up the vector of the turn after ``item``, which was made of the item's text too; it is made again later."""
    following = records.turn_after(connection, item)
    if following is not None and following.embedding is not None:
        records.unmark_embedded(connection, [following.id])
        if vectors.transactional:
            vectors.remove(connection, [following.id])


def former(connection: Connection, caller: Caller, item: MemoryItem) -> list[MemoryItem]:
    """The items that go with ``item``: those whose place it took, as far as the caller may delete them."""
    return [
        each
        for each in records.superseded_by(connection, [item.id])
        if (each.scope, each.scope_id) == (item.scope, item.scope_id) and may(caller, "delete", each)
    ]


class Removal:
    """What removes memories of one database.

    Args:
        database: where the rows are.
        vectors: where the vectors are.
        derived: told of every deletion.
    """

    def __init__(self, database: MemoryDatabase, vectors: VectorStore, derived: Sequence[Derived]) -> None:
        self._database = database
        self._vectors = vectors
        self._derived = derived

    async def delete(
        self, caller: Caller, item_id: str, check: RemovalCheck | None = None
    ) -> tuple[str, ...] | None:
        """Remove the item, what it had superseded, their vectors, words and texts; the free space is overwritten.

        Args:
            check: called in the transaction with the item and what goes with it; where that raises, all stays.

        Returns:
            the ids that are gone; None if there is no such item that the caller may delete.
        """

        def work(connection: Connection) -> tuple[str, ...] | None:
            found = records.held(connection, item_id, caller, "delete")
            if found is None:
                return None
            item, place = found
            older = former(connection, caller, item)
            if check is not None:
                check(item, older)
            place = records.changed(connection, place)
            return self.remove(connection, [item, *older], place, caller.user_id)

        gone = await self._database.write(work, caller)
        if gone is not None:
            if not self._vectors.transactional:
                # After the commit: a vector that is left without its row is removed by the next `open`.
                await self._database.run(lambda connection: self._vectors.remove(connection, gone))
            await self._database.compact()
        return gone

    async def kept_of_sessions(self, sessions: Sequence[str]) -> int:
        """How many memories sessions have alone, whoever saved them."""
        kept = select(func.count()).where(ITEM.c.scope == "session", ITEM.c.scope_id.in_(sessions))
        return await self._database.run(lambda connection: int(connection.execute(kept).scalar_one()))

    async def forget_sessions(
        self, user_id: str, sessions: Sequence[str], along: Callable[[Connection], None]
    ) -> tuple[str, ...]:
        """Remove all that is kept of sessions, whoever saved it, as ``delete`` does; the ids that are gone.

        Args:
            user_id: on whose behalf the sessions go, for the histories.
            along: what the same transaction removes besides.
        """

        def work(connection: Connection) -> tuple[str, ...]:
            along(connection)
            return tuple(
                each for session in sessions for each in self._forgotten(connection, user_id, session)
            )

        gone = await self._database.keep_up(work)
        if gone and not self._vectors.transactional:
            await self._database.run(lambda connection: self._vectors.remove(connection, gone))
        return gone

    def _forgotten(self, connection: Connection, user_id: str, session: str) -> tuple[str, ...]:
        of_session = and_(ITEM.c.scope == "session", ITEM.c.scope_id == session)
        connection.execute(delete(EXTRACTION).where(EXTRACTION.c.session == session))
        records.forget_batches_of(connection, session)
        if connection.execute(select(ITEM.c.key).where(of_session).limit(1)).first() is None:
            return ()
        # Only if there are items: `lock_place` would make a row for the place of a session that is going.
        place = records.lock_place(connection, "session", session)
        going = records.items(connection, of_session)
        return self.remove(connection, going, records.changed(connection, place), user_id)

    def forget_vectors(self, connection: Connection, ids: Sequence[str]) -> None:
        """Remove vectors that are in the transaction's own database."""
        if self._vectors.transactional:
            self._vectors.remove(connection, ids)

    def remove(
        self, connection: Connection, going: Sequence[MemoryItem], place: records.MemoryPlace, by: str
    ) -> tuple[str, ...]:
        """Remove items of a place that is held; their ids."""
        ids = tuple(each.id for each in going)
        for each in going:
            forget_in_context(connection, self._vectors, each)
        records.unlink(connection, ids)
        records.remove(connection, ids, place)
        now = self._database.time()
        last = [records.new_version(each, now) for each in going]
        records.record(connection, "deleted", by, now, *last)
        for derived in self._derived:
            derived.forget(connection, ids)
        if self._vectors.transactional:
            self._vectors.remove(connection, ids)
        return ids
