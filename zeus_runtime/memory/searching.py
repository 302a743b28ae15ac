"""One caller's search of memories: by words and meaning, by the times that a query names, and of the past.

It answers as if memories that hold a known secret were not there. The database's own search withholds them itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime.errors import UsageError
from zeus_runtime.memory.backend import FoundMemory, MemoryBackend, MemoryFilter
from zeus_runtime.memory.items import Caller, MemoryItem, MemoryType, Scope
from zeus_runtime.memory.retrieval.analysis import query_tokens, search_tokens
from zeus_runtime.memory.retrieval.fusion import corpus, lexical_similarity
from zeus_runtime.memory.retrieval.of_a_time import FURTHER, SOON, TIME_ALONE, surer
from zeus_runtime.memory.retrieval.ranking import Ranked, rank
from zeus_runtime.memory.retrieval.time_words import Period, periods, times_of, without_times

if TYPE_CHECKING:
    from zeus_runtime.memory.opened import OpenedMemory


class MemorySearch:
    """The search on behalf of a caller.

    Args:
        opened: the memory.
        caller: in the role that holds now.
        backend: for the caller.
    """

    def __init__(self, opened: OpenedMemory, caller: Caller, backend: MemoryBackend) -> None:
        self._opened = opened
        self._caller = caller
        self._backend = backend

    async def best(
        self, query: str, *, limit: int, mode: str, memory_type: MemoryType | None, scope: Scope | None
    ) -> list[Ranked]:
        """The memories that fit ``query`` best, best first."""
        wanted = MemoryFilter(self._caller, scope=scope, memory_type=memory_type)
        now = self._opened.source.now()
        times = periods(query, now) if mode == "fused" else []
        if times:
            rest = without_times(query, now)
            found: Sequence[FoundMemory] = await self._timely(rest, wanted, times, limit)
        else:
            found = await self._found(query, wanted, limit=limit, mode=mode)
        # Asked again of each memory: another backend's result is not trusted to keep to the filter.
        shown = (
            each
            for each in found
            if wanted.covers(each.item) and each.item.is_searchable and each.item.holds_at(now)
        )
        ranked = rank(((each.item, min(1.0, each.similarity)) for each in shown), limit)
        if self._backend.in_database:
            self._opened.note_used([each.item.id for each in ranked])
        return ranked

    async def past(
        self, query: str, *, limit: int, memory_type: MemoryType | None, scope: Scope | None
    ) -> list[Ranked]:
        """What was true before and fits ``query``: by words, by time, or since a memory that fits replaced it."""
        now = self._opened.source.now()
        wanted = MemoryFilter(self._caller, scope=scope, memory_type=memory_type, status=None)
        items = [
            item
            for status in ("superseded", "archived", "active")
            for item in await self._backend.list(replace(wanted, status=status), limit=_MOST_PAST)
            if wanted.covers(item)
            and item.trust != "quarantined"
            and _is_over(item, now)
            and not self._is_withheld(item)
        ]
        times, rest = periods(query, now), without_times(query, now)
        fits = await self._fitting(query, rest, wanted, max(FURTHER, limit))
        words = [search_tokens(item.content) for item in items]
        asked, known = query_tokens(rest), corpus(words)
        by_id = {item.id: item for item in items}
        found = []
        for item, own in zip(items, words, strict=True):
            by_words = min(1.0, lexical_similarity(asked, own, known)) if asked else 0.0
            similarity = max(by_words, _of_successor(item, by_id, fits))
            if times and _is_in(item, times):
                similarity = max(surer(similarity), TIME_ALONE)
            if similarity >= _LEAST:
                found.append((item, similarity))
        return rank(found, limit)

    async def _fitting(self, query: str, rest: str, wanted: MemoryFilter, limit: int) -> dict[str, float]:
        """The similarity of the memories that fit now, by id."""
        text = rest if rest.strip() else query
        found = await self._found(text, replace(wanted, status="active"), limit=limit, mode="fused")
        return {each.item.id: each.similarity for each in found if wanted.covers(each.item)}

    async def _timely(
        self, rest: str, wanted: MemoryFilter, times: Sequence[Period], limit: int
    ) -> list[FoundMemory]:
        """What fits a query that names times, for which memories of these times are surer.

        If no memory of these times fits the rest of the query, all of these times are found.

        Args:
            rest: the query without the words that name the times.
        """
        if self._backend.in_database:
            further: dict[str, Any] = {"times": times}
            return list(await self._backend.search(rest, wanted, limit=limit, **further))
        found: Sequence[FoundMemory] = ()
        if rest.strip():
            found = await self._found(rest, wanted, limit=max(FURTHER, limit), mode="fused")
        others, surer_ones = [], []
        for each in found:
            if _is_in(each.item, times):
                surer_ones.append(each._replace(similarity=surer(each.similarity)))
            else:
                others.append(each)
        return [*(surer_ones or await self._said_in(wanted, times, limit)), *others]

    async def _said_in(
        self, wanted: MemoryFilter, times: Sequence[Period], limit: int
    ) -> Sequence[FoundMemory]:
        """The memories of a time: what was said in it, or soon after it of it, last changed first."""
        found: dict[str, FoundMemory] = {}
        for time in times:
            said = replace(wanted, said_from=time.start, said_until=time.end + SOON)
            for item in await self._backend.list(said, limit=max(FURTHER, limit)):
                if _is_in(item, [time]) and not self._is_withheld(item):
                    found[item.id] = FoundMemory(item, TIME_ALONE)
        return list(found.values())[:limit]

    async def _found(
        self, query: str, wanted: MemoryFilter, *, limit: int, mode: str
    ) -> Sequence[FoundMemory]:
        if mode not in self._backend.search_modes:
            raise UsageError(
                "this memory backend compares in its own way, not by bare vectors",
                remedy="Search without the mode `vector`.",
            )
        further: dict[str, Any] = {} if mode == "fused" else {"mode": mode}
        if self._backend.in_database:
            return await self._backend.search(query, wanted, limit=limit, **further)
        asked = limit
        while True:
            found = await self._backend.search(query, wanted, limit=asked, **further)
            shown = [each for each in found if not self._is_withheld(each.item)]
            if len(shown) == len(found) or len(shown) >= limit or len(found) < asked:
                return shown
            asked *= 2

    def _is_withheld(self, item: MemoryItem) -> bool:
        return self._opened.withheld.within(item.content, item.subject)


_MOST_PAST: Final = 2_000
"""Of each status the last changed ones, which are looked through."""
_LEAST: Final = 0.21
"""What is less similar has nothing to do with the query."""


def _is_over(item: MemoryItem, now: datetime) -> bool:
    ended = item.valid_until is not None and item.valid_until <= now
    return item.status != "active" or ended


def _of_successor(item: MemoryItem, past: Mapping[str, MemoryItem], fits: Mapping[str, float]) -> float:
    """The similarity of the memory that took its place in the end."""
    seen = set()
    # A backend elsewhere may return memories that supersede each other in a circle.
    while item.superseded_by is not None and item.id not in seen:
        seen.add(item.id)
        if item.superseded_by in fits:
            return min(1.0, fits[item.superseded_by])
        following = past.get(item.superseded_by)
        if following is None:
            break
        item = following
    return 0.0


def _is_in(item: MemoryItem, times: Sequence[Period]) -> bool:
    return any(own.meets(asked) for own in times_of(item) for asked in times)
