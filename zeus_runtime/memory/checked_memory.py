"""A memory backend as the service uses it: permissions, the limit of extractions and one write of a place at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from zeus_runtime.errors import ChangedError
from zeus_runtime.memory.admission.decisions import Decision
from zeus_runtime.memory.backend import MemoryFilter, MemoryWrite, Written
from zeus_runtime.memory.database_memory import DatabaseMemory, backend_of
from zeus_runtime.memory.items import Caller, HiddenMemory, MemoryItem, MemoryType, Scope, Status
from zeus_runtime.memory.outcomes import Lost, UnreadableMemoryError, known
from zeus_runtime.memory.permissions import Operation, may, reach
from zeus_runtime.memory.writes import NewMemory

if TYPE_CHECKING:
    from zeus_runtime.memory.opened import OpenedMemory
    from zeus_runtime.memory.records import HistoryEntry
    from zeus_runtime.memory.searching import MemorySearch
    from zeus_runtime.memory.writes import Elsewhere


class CheckedMemory:
    """The memories of one caller, whatever backend has them: nothing that the caller may not see comes through.

    Args:
        opened: the memory.
        caller: in the role that holds now.
    """

    def __init__(self, opened: OpenedMemory, caller: Caller) -> None:
        self._opened = opened
        self._caller = caller
        self._backend = backend_of(opened, caller)

    async def save(self, write: MemoryWrite) -> Written:
        if self._backend.in_database:
            return await self._backend.save(write)
        async with self._opened.writing(write.scope, write.scope_id):
            if not isinstance(write, NewMemory) or write.explicit:
                return await self._backend.save(write)
            operations = await self._opened.operations()
            # Taken before the save, as the backend is not in this transaction; a save that stores nothing gives it
            # back.
            used = await operations.take_extraction(self._caller, write.answer)
            taken = used < self._opened.source.settings.max_extractions
            stored = False
            try:
                written = await self._backend.save(replace(write, extractions=used))
                stored = written.item is not None
                return written
            finally:
                # Also after an error or a cancellation; a process killed before it has counted one save too many,
                # never too few.
                if taken and not stored:
                    await operations.give_back_extraction(self._caller, write.answer)

    async def decided(self, write: NewMemory) -> Decision:
        """What ``save`` would say of a text that the user asks to keep, without keeping it."""
        decision = (await self._backend.save(replace(write, asks=True))).decision
        assert decision is not None
        return decision

    @property
    def searching(self) -> MemorySearch:
        """The search on behalf of the caller."""
        from zeus_runtime.memory.searching import MemorySearch

        return MemorySearch(self._opened, self._caller, self._backend)

    async def readable(self, ids: Collection[str]) -> dict[str, MemoryItem]:
        """Those of ``ids`` that the caller may read."""
        found = await self._backend.get(ids)
        # Checked here too: another backend may return what it was not asked for.
        return {each.id: each for each in found if each.id in ids and may(self._caller, "read", each)}

    async def permitted(self, memory_id: str, operation: Operation) -> MemoryItem | None:
        """The memory, if the caller may do this with it."""
        for each in await self._backend.get([memory_id]):
            if each.id == memory_id and may(self._caller, operation, each):
                return each
        return None

    async def listed(
        self,
        *,
        scope: Scope | None = None,
        memory_type: MemoryType | None = None,
        status: Status | None = "active",
        limit: int | None = None,
        offset: int = 0,
    ) -> list[MemoryItem]:
        wanted = MemoryFilter(self._caller, "read", scope, memory_type, status)
        found = await self._backend.list(wanted, limit=limit, offset=offset)
        return [each for each in found if wanted.covers(each)]

    async def hidden(
        self, *, scope: Scope | None, status: Status | None, limit: int | None
    ) -> list[HiddenMemory]:
        """What the caller sees the existence of and does not read."""
        wanted = MemoryFilter(self._caller, "see", scope, None, status)
        found = await self._backend.list(wanted)
        hidden = [
            HiddenMemory(each.id, each.created_by, each.created_at)
            for each in found
            if wanted.covers(each) and not may(self._caller, "read", each)
        ]
        return hidden if limit is None else hidden[:limit]

    async def delete(self, memory_id: str, *, version: int | None, along: Collection[str] | None) -> None:
        """Remove a memory with what it superseded.

        Args:
            version: the version that a person read; None for any.
            along: the older memories that a person read; None for any.

        Raises:
            UnknownMemoryError: there is none that the caller may delete.
            ChangedError: the memory has another version, or an older memory would go that is not in ``along``.
        """
        item = known(await self.permitted(memory_id, "delete"), memory_id)

        def refuse_unread(present: MemoryItem, older: Sequence[MemoryItem]) -> None:
            is_other = version is not None and present.version != version
            if is_other or (along is not None and not {each.id for each in older} <= set(along)):
                raise ChangedError(
                    f"{memory_id} was changed since you read it",
                    remedy="Read it again, then delete what is there now.",
                )

        if isinstance(self._backend, DatabaseMemory):
            await self._backend.delete([memory_id], check=refuse_unread)
            return
        async with self._opened.writing(item.scope, item.scope_id):
            refuse_unread(known(await self.permitted(memory_id, "delete"), memory_id), ())
            await self._backend.delete([memory_id])

    async def going(self, memory_id: str) -> list[MemoryItem]:
        """What ``delete`` would remove: the memory, and then what it superseded, the oldest first.

        Raises:
            UnknownMemoryError: there is none that the caller may delete.
            UnreadableMemoryError: the caller may delete it, but not read all of it.
        """
        item = known(await self.permitted(memory_id, "delete"), memory_id)
        gone = [item]
        if self._backend.in_database:
            from zeus_runtime.memory.removal import former

            operations = await self._opened.operations()
            older = await operations.database.read(
                lambda connection: former(connection, self._caller, item), self._caller
            )
            gone += sorted(older, key=lambda each: (each.created_at, each.id))
        if not all(may(self._caller, "read", each) for each in gone):
            raise UnreadableMemoryError(
                f"you may delete {memory_id} with its older versions, but not read all of them"
            )
        return gone

    async def forget_session(self, session: str) -> int:
        """Remove all that is stored of a session, whoever saved it; how many memories went."""
        caller = replace(self._caller, session_id=session)
        wanted = MemoryFilter(caller, "delete", "session", None, None, everyone=True)
        gone = [each.id for each in await self._backend.list(wanted) if wanted.covers(each)]
        await self._backend.delete(gone)
        return len(gone)

    async def history(self, memory_id: str) -> list[HistoryEntry]:
        return list(await self._backend.history(memory_id))

    async def histories(self, ids: Collection[str]) -> Mapping[str, Sequence[HistoryEntry]]:
        """What happened to each of these memories, which the caller may read."""
        if not self._backend.in_database:
            return {each: await self.history(each) for each in ids}
        from zeus_runtime.memory import records

        operations = await self._opened.operations()
        return await operations.database.read(
            lambda connection: records.histories(connection, ids), self._caller
        )

    async def linked(self, ids: Collection[str]) -> Mapping[str, tuple[MemoryItem, ...]]:
        """Of each of ``ids`` the active memories that it is linked with, newest first; none in another backend."""
        if not ids or not self._backend.in_database:
            return {}
        from zeus_runtime.memory import records

        operations, parts = await self._opened.operations(), reach(self._caller, "read")
        return await operations.database.read(
            lambda connection: records.linked(connection, ids, parts, self._caller.user_id), self._caller
        )

    async def lost(self, memory_id: str, elsewhere: Elsewhere) -> Mapping[Lost, int]:
        """What the backend does not have of an import, as it was asked to store."""
        if self._backend.in_database:
            return {}
        found: dict[Lost, int] = {"links": len(elsewhere.near)}
        if elsewhere.history:
            there = Counter(map(_change, await self.history(memory_id)))
            if Counter(map(_change, elsewhere.history)) - there:
                found["histories"] = 1
        return found


def _change(entry: HistoryEntry) -> tuple[str, datetime]:
    return entry.action, to_the_millisecond(entry.at)


def to_the_millisecond(time: datetime) -> datetime:
    """A time as exact as every backend keeps it."""
    return time.replace(microsecond=time.microsecond // 1_000 * 1_000)
