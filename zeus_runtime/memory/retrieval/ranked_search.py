"""A search: the best by words and vectors together of all that the caller may read, and ranked."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from zeus_runtime.memory import records
from zeus_runtime.memory.items import Caller, MemoryType, Scope
from zeus_runtime.memory.permissions import reach
from zeus_runtime.memory.retrieval.in_memory_search import best_at_hand
from zeus_runtime.memory.retrieval.ranking import Ranked, rank
from zeus_runtime.memory.retrieval.search import BareCosine, Measure, best
from zeus_runtime.memory.retrieval.search_index import SearchIndex
from zeus_runtime.memory.retrieval.words import asked_words
from zeus_runtime.memory.vectors import VectorQuery, VectorStore

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from zeus_runtime.memory.embedding import Embedded


def ranked_search(
    connection: Connection,
    index: SearchIndex,
    caller: Caller,
    query: str,
    embedded: Embedded | None,
    measure: Measure,
    *,
    now_ms: int,
    top_k: int | None,
    memory_type: MemoryType | None,
    scope: Scope | None,
) -> list[Ranked]:
    """The best of all that the caller may read, best first.

    Args:
        embedded: of the query; None if words alone are to be compared.
    """
    parts = reach(caller, "read", scope)
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
        similar = dict(best(found, asked, measure, top_k))
    else:
        similar = dict(best_at_hand(found, at_hand, index.links, measure, top_k))
    items = records.by_ids(connection, similar.keys(), parts, caller.user_id)
    ranked = rank(((item, similar[item.id]) for item in items.values()), top_k)
    return ranked if any(each.similarity >= measure.surely for each in ranked) else []


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
