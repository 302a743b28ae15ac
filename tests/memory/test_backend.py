"""The bundled memory backend does what every one must, and two broken ones show nothing to the wrong user."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pytest
from zeus_plugins.vector_stores.sqlite.store import SqliteVectorStore

from tests.support.memory import service
from zeus_runtime.errors import UsageError
from zeus_runtime.memory.backend import FoundMemory, MemoryBackend, MemoryFilter, MemoryWrite, Written
from zeus_runtime.memory.items import Caller, MemoryItem
from zeus_runtime.memory.opened import MemorySource, OpenedMemory
from zeus_runtime.memory.outcomes import UnknownMemoryError
from zeus_runtime.testing import MemoryConformance


class TestDatabaseMemory(MemoryConformance):
    def _source(self, folder: Path, clock: Any) -> MemorySource:
        return MemorySource("sqlite:///zeus.db", folder, SqliteVectorStore, now=clock)


class Careless(MemoryBackend):
    """It returns everything to everybody."""

    def __init__(self) -> None:
        self.kept: dict[str, MemoryItem] = {}

    async def save(self, write: MemoryWrite) -> Written:
        written = write.decide([FoundMemory(each, 0.0) for each in self.kept.values()])
        self.kept |= {item.id: item for _, item in written.changes}
        return written

    async def search(self, query: str, wanted: MemoryFilter, *, limit: int) -> Sequence[FoundMemory]:
        return [FoundMemory(each, 1.0) for each in self.kept.values()]

    async def get(self, ids: Collection[str]) -> Sequence[MemoryItem]:
        return list(self.kept.values())

    async def list(
        self, wanted: MemoryFilter, *, limit: int | None = None, offset: int = 0
    ) -> Sequence[MemoryItem]:
        return list(self.kept.values())

    async def delete(self, ids: Collection[str]) -> None:
        for each in ids:
            del self.kept[each]

    async def history(self, memory_id: str) -> Sequence[Any]:
        return []

    def for_caller(self, caller: Caller) -> MemoryBackend:
        return self

    async def aclose(self) -> None:
        return


def test_a_place_is_written_in_turn_in_each_event_loop(tmp_path: Path) -> None:
    """A program may call ``asyncio.run`` more than once with one memory."""
    opened = OpenedMemory(MemorySource("sqlite:///zeus.db", tmp_path, SqliteVectorStore))
    order: list[int] = []

    async def write(number: int) -> None:
        async with opened.writing("user", "ann"):
            order.append(number)
            await asyncio.sleep(0)
            order.append(number)

    async def both() -> None:
        await asyncio.gather(write(1), write(2))

    asyncio.run(both())
    asyncio.run(both())
    assert order == [1, 1, 2, 2] * 2


async def test_a_backend_that_forgets_every_condition_shows_nothing_to_another_user(tmp_path: Path) -> None:
    backend = Careless()
    ann = service(tmp_path, open_backend=lambda: backend)
    bob = ann.for_caller(Caller("bob", "apollo", "owner", "s1"))
    saved = await ann.add_explicit_memory("Ann hides her diary under the floor")
    assert saved.item is not None
    assert await bob.search_memories("Where is the diary?") == []
    assert await bob.list_memories(status=None) == []
    assert await bob.hidden_memories(status=None) == []
    assert await bob.current_memories([saved.item.id]) == {}
    assert (await bob.stats()).active == 0
    for refused in (bob.get, bob.delete_memory, bob.memory_history, bob.update_memory):
        with pytest.raises(UnknownMemoryError):
            await refused(saved.item.id)
    named = await bob.add_explicit_memory("Bob knows of the diary", replaces=[saved.item.id])
    assert named.code == "unknown_memory"
    assert await ann.get(saved.item.id) == saved.item
    await ann.aclose()


async def test_a_backend_without_zeus_database_refuses_batches(tmp_path: Path) -> None:
    memory = service(tmp_path, open_backend=Careless)
    with pytest.raises(UsageError, match="keeps no batches"):
        await memory.batches.listed()
    assert "extraction, consolidation and undo" in memory.lacks
    await memory.aclose()
