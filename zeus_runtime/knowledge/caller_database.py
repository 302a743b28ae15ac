"""A database that runs every transaction on behalf of one caller (``store.row_security``)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from zeus_runtime.store.row_security import act_for

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from zeus_runtime.memory.items import Caller
    from zeus_runtime.store.database import Database

T = TypeVar("T")


@dataclass(frozen=True)
class CallerDatabase:
    """What knowledge bases need of a database.

    Args:
        database: open and of this program's schema.
        caller: whose bases are seen.
    """

    database: Database
    caller: Caller

    async def run(self, work: Callable[[Connection], T]) -> T:
        """Run ``work`` in one transaction; raises what ``Database.run`` does."""
        return await self.database.run(self._acting(work))

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Like ``run``, for work of a few rows."""
        return await self.database.write(self._acting(work))

    async def checkpoint(self) -> None:
        """What ``Database.checkpoint`` does."""
        await self.database.checkpoint()

    def _acting(self, work: Callable[[Connection], T]) -> Callable[[Connection], T]:
        caller = self.caller

        def transaction(connection: Connection) -> T:
            act_for(connection, caller.user_id, caller.project_id, caller.role)
            return work(connection)

        return transaction
