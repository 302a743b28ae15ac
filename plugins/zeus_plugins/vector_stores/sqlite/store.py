"""Stores vectors as BLOBs in the memories' SQLite database, written in the same transaction as the memory's row.

The search is exact: the vectors of a place are in memory as one matrix. Before each query it is updated with the
vectors that any process added and removed since then. 50,000 vectors of 256 dimensions take 64 MB of memory.
"""

from __future__ import annotations

import heapq
import sqlite3
from collections import OrderedDict
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from zeus_plugins.vector_stores.sqlite.collection import SCHEMA, SqliteCollection
from zeus_plugins.vector_stores.sqlite.vectors_in_memory import KeptVectors, PlaceVectors
from zeus_plugins.vector_stores.sqlite.visible import Numbers, covered
from zeus_runtime.plugin import MissingError, PlanContext
from zeus_runtime.plugin.memory import Embedding, Reach
from zeus_runtime.plugin.vector_store import AtHand, Entry, VectorCollection, VectorQuery, VectorStore

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from sqlalchemy import Connection

# AUTOINCREMENT in both tables: copies read what has a number above the last one, so no number may be given twice.
_SCHEMA: Final = (
    """CREATE TABLE IF NOT EXISTS memory_vector (
      seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, scope TEXT NOT NULL, scope_id TEXT NOT NULL,
      model TEXT NOT NULL, dimension INTEGER NOT NULL, memory_type TEXT NOT NULL, visibility TEXT NOT NULL,
      created_by TEXT NOT NULL, vector BLOB NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS memory_vector_of ON memory_vector (scope, scope_id, model, dimension, seq)",
    """CREATE TABLE IF NOT EXISTS memory_vector_gone (
      number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, seq INTEGER NOT NULL)""",
)
_PUT: Final = (
    "INSERT INTO memory_vector (id, scope, scope_id, model, dimension, memory_type, visibility, created_by, vector)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_READ: Final = (
    "SELECT seq, id, memory_type, visibility, created_by, vector FROM memory_vector"
    " WHERE scope = ? AND scope_id = ? AND model = ? AND dimension = ? AND seq > ? ORDER BY seq"
)
_GONE: Final = "SELECT number, id, seq FROM memory_vector_gone WHERE number > ? ORDER BY number"
_GONE_RANGE: Final = (
    "SELECT (SELECT MIN(number) FROM memory_vector_gone), (SELECT MAX(number) FROM memory_vector_gone)"
)
"""Two subqueries, because MIN and MAX in one query would read the whole table."""
# A copy that is further behind is read anew, so the list need not grow for ever.
_GONE_KEPT: Final = 10_000
_PARAMETERS: Final = 500
_BYTES_KEPT: Final = 1_000_000_000


class SqliteVectorStore(VectorStore):
    """Keeps one matrix for each place and model that was queried; the least recently used ones are dropped."""

    def __init__(self) -> None:
        self._copies: OrderedDict[tuple[str, str, Embedding], _Copy] = OrderedDict()
        self._numbers = Numbers()
        self._written_in: object = None
        self._read_in: object = None
        self._fresh: set[tuple[str, str, Embedding]] = set()
        self._collections: OrderedDict[str, SqliteCollection] = OrderedDict()

    def prepare(self, connection: Connection) -> None:
        if connection.dialect.name != "sqlite":
            raise MissingError(
                f"the vector store sqlite cannot be used on {connection.dialect.name}",
                remedy="Set memory.vector_store to pgvector, or storage.url to a SQLite database.",
            )
        for statement in (*_SCHEMA, *SCHEMA):
            _execute(connection, statement)

    def put(self, connection: Connection, entries: Sequence[Entry]) -> None:
        self._written_in = connection.get_transaction()
        # A vector is replaced by a row with a new number, which copies find as a new one.
        self.remove(connection, [entry.item.id for entry in entries])
        rows = [
            (
                entry.item.id,
                entry.item.scope,
                entry.item.scope_id,
                entry.embedding.model,
                entry.embedding.dimension,
                entry.item.memory_type,
                entry.item.visibility,
                entry.item.created_by,
                np.asarray(entry.vector, "<f4").tobytes(),
            )
            for entry in entries
        ]
        if rows:
            _raw(connection).executemany(_PUT, rows)

    def remove(self, connection: Connection, ids: Collection[str]) -> None:
        self._written_in = connection.get_transaction()
        for some in _blocks(ids):
            marks = ", ".join("?" * len(some))
            removed = _execute(
                connection, f"DELETE FROM memory_vector WHERE id IN ({marks}) RETURNING id, seq", tuple(some)
            ).fetchall()
            for item_id, seq in removed:
                _execute(connection, "INSERT INTO memory_vector_gone (id, seq) VALUES (?, ?)", (item_id, seq))
            if removed:
                _execute(
                    connection,
                    "DELETE FROM memory_vector_gone"
                    f" WHERE number <= (SELECT MAX(number) FROM memory_vector_gone) - {_GONE_KEPT}",
                )

    def nearest(self, connection: Connection, query: VectorQuery) -> Iterator[tuple[str, float]]:
        found = [
            copy.place_vectors.nearest(
                query.vector, self._visible(copy.place_vectors, part, query), query.at_least
            )
            for part, copy in self._asked(connection, query)
        ]
        return heapq.merge(*found, key=lambda each: -each[1]) if len(found) != 1 else found[0]

    def cosines(self, connection: Connection, query: VectorQuery, ids: Collection[str]) -> dict[str, float]:
        wanted = list(ids)
        found: dict[str, float] = {}
        for part, copy in self._asked(connection, query):
            found |= copy.place_vectors.cosines(
                wanted, query.vector, self._visible(copy.place_vectors, part, query)
            )
        return found

    def at_hand(self, connection: Connection, query: VectorQuery) -> Sequence[AtHand]:
        return [
            KeptVectors(copy.place_vectors, self._visible(copy.place_vectors, part, query), query)
            for part, copy in self._asked(connection, query)
        ]

    def ids(self, connection: Connection) -> set[str]:
        return {row[0] for row in _execute(connection, "SELECT id FROM memory_vector")}

    def collection(self, name: str, dimension: int) -> VectorCollection:
        found = self._collections.pop(name, None) or SqliteCollection(name, dimension)
        kept = sum(each.nbytes for each in self._collections.values())
        for each in self._collections.values():
            if kept <= _BYTES_KEPT:
                break
            kept -= each.nbytes
            each.forget()
        self._collections[name] = found
        return found

    def close(self) -> None:
        self._copies.clear()
        self._collections.clear()
        self._read_in = None

    def _asked(self, connection: Connection, query: VectorQuery) -> list[tuple[Reach, _Copy]]:
        return [(part, self._copy(connection, part, query.embedding)) for part in query.reach]

    def _copy(self, connection: Connection, part: Reach, embedding: Embedding) -> _Copy:
        key = (part.scope, part.scope_id, embedding)
        if self._written_in is not None and self._written_in is connection.get_transaction():
            # This transaction's writes may be rolled back: they are used for this query, and not kept.
            copy = _Copy(part, embedding)
            copy.refresh(connection, self._numbers)
            return copy
        if key in self._fresh and key in self._copies and self._same_state(connection):
            return self._copies[key]
        # Popped: if the refresh fails, no half-updated copy is left.
        copy = self._copies.pop(key) if key in self._copies else _Copy(part, embedding)
        before = copy.place_vectors.size
        copy.refresh(connection, self._numbers)
        self._copies[key] = copy
        if copy.place_vectors.size > before:
            self._make_room()
        if not self._same_state(connection):
            self._read_in = connection.get_transaction()
            self._fresh.clear()
        self._fresh.add(key)
        return copy

    def _same_state(self, connection: Connection) -> bool:
        """Whether the last read was in this transaction, whose statements all see one state of the database."""
        transaction = connection.get_transaction()
        return transaction is not None and transaction is self._read_in and _raw(connection).in_transaction

    def _make_room(self) -> None:
        kept = sum(each.place_vectors.size for each in self._copies.values())
        while len(self._copies) > 1 and kept > _BYTES_KEPT:
            # At least one stays, however large: the query that runs now uses it.
            kept -= self._copies.popitem(last=False)[1].place_vectors.size

    def _visible(self, place_vectors: PlaceVectors, part: Reach, query: VectorQuery) -> NDArray[np.bool_]:
        key = (part.grants, query.user_id, query.memory_type)
        return place_vectors.visible(key, lambda start: self._covered(place_vectors, part, query, start))

    def _covered(
        self, place_vectors: PlaceVectors, part: Reach, query: VectorQuery, start: int
    ) -> NDArray[np.bool_]:
        return covered([column[start:] for column in place_vectors.figures], part, query, self._numbers)


class _Copy:
    """The vectors of one place and one model in memory, with the numbers of the last changes read."""

    def __init__(self, part: Reach, embedding: Embedding) -> None:
        self._where = (part.scope, part.scope_id, embedding.model, embedding.dimension)
        self._dimension = embedding.dimension
        self._begin()

    def _begin(self) -> None:
        self.place_vectors = PlaceVectors(self._dimension)
        self._seqs: dict[str, int] = {}
        self._last = 0
        self._gone = 0

    def refresh(self, connection: Connection, numbers: Numbers) -> None:
        row = _execute(connection, _GONE_RANGE).fetchone()
        first, last = row[0] or 1, row[1] or 0
        # Removals that this copy has not read are off the list, or the database was replaced by an older one: begin
        # anew.
        if self._last == 0 or not first - 1 <= self._gone <= last or self.place_vectors.is_worn:
            self._begin()
            # The rows below are read without all that is removed up to here.
            self._gone = last
        rows = _execute(connection, _READ, (*self._where, self._last)).fetchall()
        if rows:
            seqs, ids, types, visibilities, owners, blobs = zip(*rows, strict=True)
            vectors = np.frombuffer(b"".join(blobs), "<f4").reshape(len(rows), self._dimension)
            figures = [numbers.of_all(column) for column in (types, visibilities, owners)]
            self.place_vectors.add(ids, vectors.astype(np.float32, copy=False), figures)
            self._seqs.update(zip(ids, seqs, strict=True))
            self._last = seqs[-1]
        if self._gone < last:
            for gone, item_id, seq in _execute(connection, _GONE, (self._gone,)):
                self._gone = gone
                # An item that was stored again since then is here under another number.
                if self._seqs.get(item_id) == seq:
                    self.place_vectors.take_away(item_id)
                    del self._seqs[item_id]


def create(_options: None, _context: PlanContext) -> SqliteVectorStore:
    """Create the store; it uses the memories' database."""
    return SqliteVectorStore()


def _raw(connection: Connection) -> sqlite3.Connection:
    """Return the driver's connection: for ten small statements, SQLAlchemy would take longer than SQLite itself."""
    raw: object = connection.connection.dbapi_connection
    assert isinstance(raw, sqlite3.Connection)
    return raw


def _execute(connection: Connection, statement: str, values: Sequence[object] = ()) -> sqlite3.Cursor:
    return _raw(connection).execute(statement, values)


def _blocks(ids: Collection[str]) -> Iterator[list[str]]:
    wanted = list(ids)
    for start in range(0, len(wanted), _PARAMETERS):
        yield wanted[start : start + _PARAMETERS]
