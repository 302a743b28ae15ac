"""The memory backend `langgraph`: memories as values of LangGraph's ``AsyncSqliteStore``.

A memory is the value of its id in the namespace ``zeus, memories, SCOPE, SCOPE_ID``. Its history is in ``zeus,
history, ID``, and ``zeus, places`` says in which namespace an id is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final
from urllib.parse import quote

from langgraph.store.base import PutOp, SearchItem

from zeus_runtime.plugin import Doc, dataclass
from zeus_runtime.plugin.memory import (
    Caller,
    FoundMemory,
    HistoryEntry,
    MemoryBackend,
    MemoryFilter,
    MemoryItem,
    MemoryWrite,
    Written,
    last_changed_first,
    memory_as_json,
    memory_of_json,
    word_similarity,
)

if TYPE_CHECKING:
    from langgraph.store.sqlite import AsyncSqliteStore

    from zeus_runtime.plugin import PlanContext

_PAGE: Final = 500
_NEAR: Final = 12
_LEAST: Final = 0.2
"""With fewer of its words, a text has nothing to do with the query."""


@dataclass(frozen=True)
class Options:
    """Where the store is."""

    path: Annotated[str, Doc("The store's SQLite file; relative to the working directory.")] = (
        "langgraph-memory.db"
    )


def create(options: Options | None, context: PlanContext) -> MemoryBackend:
    """The backend; it opens its file at first use."""
    return LangGraphMemory(OpenedStore(context.directory / (options or Options()).path), None)


class OpenedStore:
    """One open store for all callers.

    Args:
        path: of the SQLite file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stack = AsyncExitStack()
        self._store: AsyncSqliteStore | None = None
        self._opening = asyncio.Lock()

    async def get(self) -> AsyncSqliteStore:
        from langgraph.store.sqlite import AsyncSqliteStore

        async with self._opening:
            if self._store is None:
                store = await self._stack.enter_async_context(
                    AsyncSqliteStore.from_conn_string(str(self._path))
                )
                await store.setup()
                self._store = store
            return self._store

    async def close(self) -> None:
        self._store = None
        await self._stack.aclose()


class LangGraphMemory(MemoryBackend):
    """Memories in a store, on behalf of a caller.

    Args:
        opened: the store.
        caller: None until ``for_caller``.
    """

    lacks: ClassVar = {
        "vectors": "texts are compared by their words",
        "one write at a time for several processes": "two processes may store the same text at the same moment",
    }

    def __init__(self, opened: OpenedStore, caller: Caller | None) -> None:
        self._opened = opened
        self._caller = caller

    async def save(self, write: MemoryWrite) -> Written:
        found = [FoundMemory(item, 0.0) for item in await self.get(write.ids)]
        if write.content is not None:
            active = await self._items((write.scope, write.scope_id), {"status": "active"})
            found += _nearest(write.content, active, _NEAR, 0.0)
        written = write.decide(found)
        operations: list[PutOp] = []
        if written.item is not None:
            namespace = _history(written.item.id)
            operations += [
                PutOp(namespace, _BEFORE.format(number), _change(entry, written.item))
                for number, entry in enumerate(written.before)
            ]
        for action, item in written.changes:
            place = _place(item.scope, item.scope_id)
            operations += [
                PutOp(place, item.id, memory_as_json(item)),
                PutOp(_PLACES, item.id, {"place": list(place)}),
                PutOp(_history(item.id), f"{item.version:09}", _entry(action, write.caller, item)),
            ]
        if operations:
            await (await self._opened.get()).abatch(operations)
        return written

    async def search(self, query: str, wanted: MemoryFilter, *, limit: int) -> Sequence[FoundMemory]:
        return _nearest(query, await self.list(wanted), max(_NEAR, 4 * limit), _LEAST)

    async def get(self, ids: Collection[str]) -> Sequence[MemoryItem]:
        store = await self._opened.get()
        found = []
        for each in ids:
            place = await store.aget(_PLACES, each)
            value = place and await store.aget(tuple(place.value["place"]), each)
            if value:
                found.append(memory_of_json(value.value))
        return found

    async def list(
        self, wanted: MemoryFilter, *, limit: int | None = None, offset: int = 0
    ) -> Sequence[MemoryItem]:
        asked = {"status": wanted.status, "memory_type": wanted.memory_type}
        chosen = {name: value for name, value in asked.items() if value is not None}
        items = [item for place in wanted.places for item in await self._items(place, chosen)]
        listed = last_changed_first(item for item in items if wanted.covers(item))
        return listed[offset : None if limit is None else offset + limit]

    async def delete(self, ids: Collection[str]) -> None:
        store = await self._opened.get()
        operations: list[PutOp] = []
        going, gone = list(await self.get(ids)), set()
        while going:
            item = going.pop()
            if item.id in gone:
                continue
            gone.add(item.id)
            going += await self._items((item.scope, item.scope_id), {"superseded_by": item.id})
            operations += [
                PutOp(_place(item.scope, item.scope_id), item.id, None),
                PutOp(_PLACES, item.id, None),
                *(PutOp(_history(item.id), each.key, None) for each in await self._all(_history(item.id))),
            ]
        if operations:
            await store.abatch(operations)

    async def history(self, memory_id: str) -> Sequence[HistoryEntry]:
        entries = sorted(await self._all(_history(memory_id)), key=lambda each: each.key)
        return [_read_entry(each.value) for each in entries]

    def for_caller(self, caller: Caller) -> MemoryBackend:
        return LangGraphMemory(self._opened, caller)

    async def aclose(self) -> None:
        await self._opened.close()

    async def _items(self, place: tuple[str, str], chosen: dict[str, Any]) -> list[MemoryItem]:
        return [memory_of_json(each.value) for each in await self._all(_place(*place), chosen)]

    async def _all(
        self, namespace: tuple[str, ...], chosen: dict[str, Any] | None = None
    ) -> list[SearchItem]:
        store = await self._opened.get()
        found: list[SearchItem] = []
        while True:
            page = await store.asearch(namespace, filter=chosen or None, limit=_PAGE, offset=len(found))
            found += page
            if len(page) < _PAGE:
                return [each for each in found if each.namespace == namespace]


_PLACES: Final = ("zeus", "places")
_BEFORE: Final = "000000000.{:09}"
"""The key of a change from before an import; it sorts before those of all versions."""


def _place(scope: str, scope_id: str) -> tuple[str, ...]:
    return "zeus", "memories", scope, _label(scope_id)


def _history(memory_id: str) -> tuple[str, ...]:
    return "zeus", "history", _label(memory_id)


def _label(text: str) -> str:
    """A namespace's label, in which LangGraph allows no period."""
    return quote(text, safe="").replace(".", "%2E")


def _nearest(query: str, items: Collection[MemoryItem], limit: int, least: float) -> list[FoundMemory]:
    found = [FoundMemory(item, word_similarity(query, item.content)) for item in items]
    found = [each for each in found if each.similarity >= least]
    return sorted(found, key=lambda each: (-each.similarity, each.item.id))[:limit]


def _entry(action: str, caller: Caller, item: MemoryItem) -> dict[str, Any]:
    value = memory_as_json(item)
    kept = ("version", "content", "valid_from", "valid_until")
    return {"item": item.id, "action": action, "by": caller.user_id, "at": value["updated_at"]} | {
        name: value[name] for name in kept
    }


def _change(entry: HistoryEntry, item: MemoryItem) -> dict[str, Any]:
    times = {name: getattr(entry, name) for name in ("at", "valid_from", "valid_until")}
    iso = {name: None if time is None else time.isoformat() for name, time in times.items()}
    return {**entry._asdict(), "item": item.id, **iso}


def _read_entry(value: dict[str, Any]) -> HistoryEntry:
    times = {name: _time(value[name]) for name in ("at", "valid_from", "valid_until")}
    return HistoryEntry(**{**value, **times})


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
