"""Keeps copies of the vectors of frequently queried places in the process, and compares them there.

Comparing one vector costs the server several times more than it costs here, and each block of answers is a round trip.
So a place's vectors are read once, and before each query the copy is updated with the changes of all processes since
then. A transaction that writes a place's vectors increases the change count in the place's row, and holds that row
until it ends. So the counts become visible in their order.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from zeus_plugins.vector_stores.sqlite.vectors_in_memory import KeptVectors, PlaceVectors
from zeus_plugins.vector_stores.sqlite.visible import Numbers, covered
from zeus_runtime.plugin.memory import Embedding, Reach

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zeus_runtime.plugin.vector_store import AtHand, Entry, VectorQuery

Place: TypeAlias = tuple[str, str]
"""Scope and ``scope_id``."""
_Key: TypeAlias = tuple[str, str, str, Embedding]

PATIENCE: Final = 2
"""A place's vectors are copied at its query with this number: a single query is cheaper on the server."""
_RECOUNT: Final = 256
_HEADS: Final = 1.75
"""The size of a copy relative to its vectors: it also has two heads, ids and room to grow."""

_COUNT: Final = """
INSERT INTO memory_vector_pg_place AS place (scope, scope_id, changes, removals) VALUES (%s, %s, 1, 0)
ON CONFLICT (scope, scope_id) DO UPDATE SET changes = place.changes + 1"""
_COUNTS: Final = """
SELECT scope, scope_id, changes, removals FROM memory_vector_pg_place WHERE (scope, scope_id) IN ({places})"""
_OF: Final = (
    "FROM memory_vector_pg WHERE scope = %(scope)s AND scope_id = %(scope_id)s AND model = %(model)s"
    " AND dimension = %(dimension)s"
)
_HOW_MANY: Final = f"SELECT count(*) {_OF}"
_BLOCK: Final = 8_192
# Packed into arrays, because fetching a row for each vector takes longer than reading it.
_READ: Final = f"""
SELECT array_agg(id), array_agg(memory_type), array_agg(visibility), array_agg(created_by),
  string_agg(vector_send(vector), '')
FROM (SELECT *, (row_number() OVER () - 1) / {_BLOCK} AS block {_OF} AND changed > %(since)s) AS new GROUP BY block"""
_IDS: Final = f"SELECT id {_OF}"


def copied_bytes(number: int, dimension: int) -> float:
    """Return the bytes of a copy of ``number`` vectors."""
    return number * dimension * 4 * _HEADS


def count_change(cursor: Any, places: Collection[Place]) -> None:
    """Count one change of each place; other transactions cannot change these places until this one ends.

    A trigger on the server counts removals (``schema``).
    """
    # Sorted, as in the trigger: two transactions that lock the same places in different orders would wait for each
    # other.
    cursor.executemany(_COUNT, sorted(set(places)))


class Copies:
    """The copies of the last used places. For one thread at a time.

    Args:
        most_bytes: maximum bytes of all copies together; 0 for no copies.
    """

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._copies: OrderedDict[_Key, _PlaceCopy] = OrderedDict()
        self._asked: dict[_Key, int] = {}
        self._fresh_in: object = None
        self._fresh: set[_Key] = set()
        self._numbers = Numbers()

    def clear(self) -> None:
        """Drop all copies."""
        self._copies.clear()
        self._asked.clear()
        self._fresh_in = None

    def of(self, raw: Any, query: VectorQuery, transaction: object) -> VisibleCopies | None:
        """Return copies of all vectors in reach, as this transaction sees them; None if the server should be queried.

        Args:
            raw: psycopg's connection.
            transaction: the query's transaction; a copy is updated once per transaction.
        """
        if not self.most_bytes or not query.reach:
            return None
        if transaction is None or transaction is not self._fresh_in:
            self._fresh_in = transaction
            self._fresh.clear()
        # Members may see different rows of a project (row-level security), so each member has a separate copy.
        keys = {(part.scope, part.scope_id, query.user_id, query.embedding): part for part in query.reach}
        # All or none: `VisibleCopies` answers for the whole reach.
        if not all(self._is_wanted(raw, key) for key in keys):
            return None
        self._refresh(raw, [key for key in keys if key not in self._fresh])
        self._fresh |= keys.keys()
        found = [
            (self._copies[key].place_vectors, self._visible(key, part, query)) for key, part in keys.items()
        ]
        self._make_room(len(keys))
        return VisibleCopies(found, query)

    def _is_wanted(self, raw: Any, key: _Key) -> bool:
        if key in self._copies:
            return True
        # One query asks several times in its transaction (nearest, cosines, at_hand) and counts once.
        if key in self._fresh:
            return False
        self._fresh.add(key)
        # A bound for a service with many users; clearing it only delays the next copies.
        if len(self._asked) > 10_000:
            self._asked.clear()
        asked = self._asked[key] = self._asked.get(key, 0) + 1
        # A place that was too large is counted again after many queries, as its vectors may have become fewer.
        if asked < PATIENCE or (asked - PATIENCE) % _RECOUNT:
            return False
        many = raw.execute(_HOW_MANY, _values(key)).fetchone()[0]
        if copied_bytes(many, key[3].dimension) > self.most_bytes:
            return False
        self._copies[key] = _PlaceCopy(key[3].dimension)
        self._fresh.discard(key)
        return True

    def _refresh(self, raw: Any, keys: Sequence[_Key]) -> None:
        if not keys:
            return
        places = {key[:2] for key in keys}
        query = _COUNTS.format(places=", ".join(["(%s, %s)"] * len(places)))
        counts = {
            row[:2]: row[2:] for row in raw.execute(query, [each for place in places for each in place])
        }
        for key in keys:
            self._copies.move_to_end(key)
            try:
                self._copies[key].refresh(raw, key, counts.get(key[:2], (0, 0)), self._numbers)
            except BaseException:
                del self._copies[key]  # it may contain only some of the changes
                raise

    def _make_room(self, in_use: int) -> None:
        kept = sum(copy.place_vectors.size for copy in self._copies.values())
        # This query's copies are at the end, where `_refresh` moved them, so those of other queries are dropped
        # first.
        while len(self._copies) > in_use and kept > self.most_bytes:
            kept -= self._copies.popitem(last=False)[1].place_vectors.size

    def _visible(self, key: _Key, part: Reach, query: VectorQuery) -> NDArray[np.bool_]:
        place_vectors = self._copies[key].place_vectors

        def within(start: int) -> NDArray[np.bool_]:
            return covered([column[start:] for column in place_vectors.figures], part, query, self._numbers)

        return place_vectors.visible((part.grants, query.user_id, query.memory_type), within)


class VisibleCopies:
    """The copies of a reach, with their visible vectors."""

    def __init__(
        self, places_vectors: Sequence[tuple[PlaceVectors, NDArray[np.bool_]]], query: VectorQuery
    ) -> None:
        self._places_vectors = places_vectors
        self._query = query

    def at_hand(self) -> list[AtHand]:
        """As ``VectorStore.at_hand``."""
        return [
            KeptVectors(place_vectors, visible, self._query)
            for place_vectors, visible in self._places_vectors
        ]

    def nearest(self) -> Iterator[tuple[str, float]]:
        """As ``VectorStore.nearest``; exact."""
        found = [
            place_vectors.nearest(self._query.vector, visible, self._query.at_least)
            for place_vectors, visible in self._places_vectors
        ]
        return heapq.merge(*found, key=lambda each: -each[1])

    def cosines(self, ids: Collection[str]) -> dict[str, float]:
        """As ``VectorStore.cosines``."""
        wanted, found = list(ids), dict[str, float]()
        for place_vectors, visible in self._places_vectors:
            found |= place_vectors.cosines(wanted, self._query.vector, visible)
        return found


class _PlaceCopy:
    """The vectors of one place and one model, up to a certain change count."""

    def __init__(self, dimension: int) -> None:
        self._dimension = dimension
        self._begin()

    def _begin(self) -> None:
        self.place_vectors = PlaceVectors(self._dimension)
        self._ids: set[str] = set()
        # Vectors from before the column `changed` have 0 there, so even 0 is after -1.
        self._changes, self._removals = -1, 0

    def refresh(self, raw: Any, key: _Key, counts: tuple[int, int], numbers: Numbers) -> None:
        changes, removals = counts
        if changes == self._changes:
            return
        if changes < self._changes or removals < self._removals or self.place_vectors.is_worn:
            self._begin()  # the database was restored, or there are too many empty slots
        values = _values(key)
        kind = np.dtype([("head", ">i2", 2), ("vector", ">f4", self._dimension)])
        blocks = raw.execute(_READ, {**values, "since": self._changes}, binary=True).fetchall()
        self.place_vectors.make_room(sum(len(ids) for ids, *_ in blocks))
        for ids, *columns, packed in blocks:
            vectors = np.frombuffer(packed, kind)["vector"].astype(np.float32)
            self.place_vectors.add(ids, vectors, [numbers.of_all(column) for column in columns])
            self._ids.update(ids)
        # After the new vectors were added: one that was removed since is not among the server's numbers.
        if removals != self._removals:
            there = {row[0] for row in raw.execute(_IDS, values)}
            for item_id in self._ids - there:
                self.place_vectors.take_away(item_id)
            self._ids &= there
        self._changes, self._removals = changes, removals


def _values(key: _Key) -> dict[str, Any]:
    scope, scope_id, _, embedding = key
    return {"scope": scope, "scope_id": scope_id, "model": embedding.model, "dimension": embedding.dimension}


def places_of(entries: Sequence[Entry]) -> list[Place]:
    """Return the places of the entries' items."""
    return [(entry.item.scope, entry.item.scope_id) for entry in entries]
