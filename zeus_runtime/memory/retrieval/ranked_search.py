"""A search: the best by words and vectors together of all that the caller may read, and ranked."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from zeus_runtime.memory import records
from zeus_runtime.memory.items import Caller, MemoryType, Scope
from zeus_runtime.memory.permissions import Reach, reach
from zeus_runtime.memory.retrieval.in_memory_search import best_at_hand
from zeus_runtime.memory.retrieval.lexical import ShelfMatches
from zeus_runtime.memory.retrieval.of_a_time import FURTHER, SOON, TIME_ALONE, surer
from zeus_runtime.memory.retrieval.ranking import (
    CONFIDENCE_WEIGHT,
    SCOPE_WEIGHT,
    SIMILARITY_WEIGHT,
    Ranked,
    rank,
)
from zeus_runtime.memory.retrieval.search import BareCosine, Measure, best
from zeus_runtime.memory.retrieval.search_index import SearchIndex
from zeus_runtime.memory.retrieval.words import asked_words
from zeus_runtime.memory.vectors import VectorQuery, VectorStore

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from zeus_runtime.memory.embedding import Embedded
    from zeus_runtime.memory.retrieval.time_words import Period


class Question(NamedTuple):
    """What is asked, and by whom.

    Args:
        embedded: of the query; None if words alone are to be compared.
    """

    caller: Caller
    query: str
    embedded: Embedded | None
    measure: Measure
    now_ms: int
    memory_type: MemoryType | None
    scope: Scope | None

    @property
    def parts(self) -> tuple[Reach, ...]:
        """Where the caller may read."""
        return reach(self.caller, "read", self.scope)


def ranked_search(
    connection: Connection, index: SearchIndex, question: Question, top_k: int | None
) -> list[Ranked]:
    """The best of all that the caller may read, best first."""
    while True:
        _, similar = _compared(connection, index, question, top_k)
        items = records.by_ids(connection, similar.keys(), question.parts, question.caller.user_id)
        # Each further round is without at least one memory more, so the loop ends.
        if not index.lexicon.withhold(items.values()):
            break
    ranked = rank(((item, similar[item.id]) for item in items.values()), top_k)
    # Without one that is surely similar the query has no answer here, and the weak ones are chance.
    return ranked if any(each.similarity >= question.measure.surely for each in ranked) else []


def ranked_in_time(
    connection: Connection, index: SearchIndex, question: Question, times: Sequence[Period], top_k: int
) -> list[Ranked]:
    """The best for a query that names times, for which memories of these times are surer.

    If none of the ``FURTHER`` best for the rest of the query is of these times, what was said of them is found beside
    these. Only the rows of what is returned are read.

    Args:
        question: without the words that name the times.
    """
    while True:
        parts, similar = _compared(connection, index, question, max(FURTHER, top_k))
        # `_compared` gives a few more than asked for, in no order.
        found = sorted(_placed(parts, similar))[: max(FURTHER, top_k)]
        if not question.query.strip() or all(each.similarity < question.measure.surely for each in found):
            found = []
        of_time = [part.shelf.in_time(times) for part in parts]
        best = [each.surer() if of_time[each.part][each.slot] else each for each in found]
        # None of these is of the times, or nothing fits the words at all.
        if best == found:
            best += _placed(parts, dict.fromkeys(_said_in(parts, times, top_k), TIME_ALONE))
        chosen = {each.id: each.similarity for each in heapq.nsmallest(top_k, best)}
        items = records.by_ids(connection, chosen, question.parts, question.caller.user_id)
        if not index.lexicon.withhold(items.values()):
            break
    return rank(((item, chosen[item.id]) for item in items.values()), top_k)


def _compared(
    connection: Connection, index: SearchIndex, question: Question, top_k: int | None
) -> tuple[Sequence[ShelfMatches], dict[str, float]]:
    """What the caller may read with how well its words fit, and how similar the ``top_k`` best or a few more are."""
    caller, query, embedded, measure, now_ms, memory_type, _ = question
    parts = question.parts
    # For the bare cosine words count nothing, so none is looked up.
    words = [] if isinstance(measure, BareCosine) else asked_words(query)
    found = index.lexicon.find(
        connection, words, parts, caller.user_id, now_ms=now_ms, memory_type=memory_type, in_context=True
    )
    asked, at_hand = None, None
    if embedded is not None:
        about = VectorQuery(
            embedded.vector, embedded.embedding, parts, caller.user_id, memory_type=memory_type
        )
        at_hand = index.vectors.at_hand(connection, about)
        asked = _Asked(index.vectors, connection, about)
    if at_hand is None:
        return found, dict(best(found, asked, measure, top_k))
    return found, dict(best_at_hand(found, at_hand, index.links, measure, top_k))


class _Placed(NamedTuple):
    """A memory by its place among those found: in the order of ``ranking.rank``."""

    negative_score: float
    negative_similarity: float
    id: str
    part: int
    slot: int

    @property
    def similarity(self) -> float:
        return -self.negative_similarity

    def surer(self) -> _Placed:
        """The same as a memory of the time that the query names."""
        similarity = surer(self.similarity)
        score = self.negative_score - (similarity - self.similarity) * SIMILARITY_WEIGHT
        return self._replace(negative_score=score, negative_similarity=-similarity)


def _placed(parts: Sequence[ShelfMatches], similar: Mapping[str, float]) -> list[_Placed]:
    found = []
    for number, part in enumerate(parts):
        if not len(part.shelf):
            continue
        slots = [(part.shelf.slot(item_id), item_id) for item_id in similar]
        base = part.confidence * CONFIDENCE_WEIGHT + part.priority * SCOPE_WEIGHT
        for slot, item_id in slots:
            if slot is not None:
                score = similar[item_id] * SIMILARITY_WEIGHT + float(base[slot])
                found.append(_Placed(-score, -similar[item_id], item_id, number, slot))
    return found


def _said_in(parts: Sequence[ShelfMatches], times: Sequence[Period], limit: int) -> list[str]:
    """The memories of each time that were said in it, or soon after it of it, last changed first."""
    found: dict[str, None] = {}
    for time in times:
        start, until = records.to_ms(time.start), records.to_ms(time.end + SOON)
        said: list[tuple[int, int, str]] = []
        for part in parts:
            shelf, at = part.shelf, part.shelf.figure("said")
            slots = np.flatnonzero(part.visible & shelf.in_time([time]) & (start <= at) & (at < until))
            updated = shelf.figure("updated")[slots]
            if len(slots) > limit:
                # With all that equal the last one: `nlargest` below decides among them by key, always in the same
                # way.
                last = updated >= np.partition(updated, len(slots) - limit)[len(slots) - limit]
                slots, updated = slots[last], updated[last]
            said += [
                (changed, shelf.key(slot), shelf.id(slot))
                for changed, slot in zip(updated.tolist(), slots.tolist(), strict=True)
            ]
        found |= dict.fromkeys(each for _, _, each in heapq.nlargest(limit, said))
    return list(found)[:limit]


@dataclass(frozen=True)
class _Asked:
    """A store's vectors within one query."""

    store: VectorStore
    connection: Connection
    query: VectorQuery

    def nearest(self, at_least: float) -> Iterator[tuple[str, float]]:
        return self.store.nearest(self.connection, replace(self.query, at_least=at_least))

    def cosines(self, ids: Collection[str]) -> Mapping[str, float]:
        return self.store.cosines(self.connection, self.query, ids)
