"""The memories' database: transactions on behalf of a caller, or for what concerns everybody's rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Final, TypeVar

from zeus_runtime.memory import records
from zeus_runtime.memory.items import Caller
from zeus_runtime.store import schema
from zeus_runtime.store.row_security import act_for, act_for_upkeep
from zeus_runtime.store.transactions import retry_while_locked

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from zeus_runtime.store.database import Database

T = TypeVar("T")

_WRITES_BETWEEN_CHECKPOINTS: Final = 200


class MemoryDatabase:
    """Each transaction sees one state, and a row only if the caller may (``store.row_security``).

    Args:
        database: where the rows are.
        now: the clock, UTC.
    """

    def __init__(self, database: Database, now: Callable[[], datetime]) -> None:
        self._database = database
        self._now = now
        self._writes = 0

    async def open(self, prepare: Callable[[Connection], None]) -> None:
        """Bring the tables up to date and ``prepare`` what is not there yet, one process after the other."""

        def transaction(connection: Connection) -> None:
            records.begin_write(connection)
            records.lock(connection, "tables")
            act_for_upkeep(connection)
            prepare(connection)

        await schema.ready(self._database)
        await self._database.run(lambda connection: retry_while_locked(lambda: transaction(connection)))

    async def close(self) -> None:
        """Move the write-ahead log into the database and close it."""
        await self._database.checkpoint()
        await self._database.close()

    def time(self) -> datetime:
        """Now, as exact as the database keeps it."""
        return records.from_ms(records.to_ms(self._now()))

    async def read(
        self, work: Callable[[Connection], T], caller: Caller | None = None, *, at_hand: bool = False
    ) -> T:
        """Run ``work`` on one state of the database.

        Args:
            caller: on whose behalf; without one, the database may show no rows (``store.row_security``).
            at_hand: the rows are few and in memory, so a thread would cost more than it saves.
        """

        def transaction(connection: Connection) -> T:
            records.begin_read(connection)
            _act_for(connection, caller)
            return work(connection)

        return await (self._database.compute if at_hand else self._database.run)(transaction)

    async def write(self, work: Callable[[Connection], T], caller: Caller, *, at_hand: bool = False) -> T:
        """Run ``work`` on behalf of ``caller`` in one transaction that may write.

        Args:
            at_hand: as for ``read``.
        """

        def transaction(connection: Connection) -> T:
            records.begin_write(connection)
            _act_for(connection, caller)
            return work(connection)

        return await self._written(transaction, at_hand=at_hand)

    async def keep_up(self, work: Callable[[Connection], T]) -> T:
        """Run ``work``, which concerns everybody's rows, in one transaction."""

        def transaction(connection: Connection) -> T:
            records.begin_write(connection)
            act_for_upkeep(connection)
            return work(connection)

        return await self._written(transaction)

    async def _written(self, transaction: Callable[[Connection], T], *, at_hand: bool = False) -> T:
        result = await (self._database.compute if at_hand else self._database.run)(transaction)
        self._writes += 1
        if self._writes % _WRITES_BETWEEN_CHECKPOINTS == 0:
            await self._database.checkpoint()
        return result

    async def run(self, work: Callable[[Connection], T]) -> T:
        """Run ``work`` on data that is not a row of memories: vectors stored elsewhere."""
        return await self._database.run(work)

    async def outside(self, work: Callable[[Connection], None]) -> None:
        """Run ``work`` in no transaction."""
        await self._database.outside(work)

    async def compact(self) -> None:
        """Give freed space back to the file system (SQLite; nothing elsewhere)."""
        await self._database.compact()


@contextmanager
def for_everybody(connection: Connection, caller: Caller) -> Iterator[None]:
    """Inside, rows in the name of other users may be written, in the transaction of ``caller``."""
    act_for_upkeep(connection)
    # Without `finally`: an exception ends the transaction, and with it the role that it acts in.
    yield
    _act_for(connection, caller)


def _act_for(connection: Connection, caller: Caller | None) -> None:
    if caller is not None:
        act_for(connection, caller.user_id, caller.project_id, caller.role)
