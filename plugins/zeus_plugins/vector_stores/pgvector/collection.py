"""Collections of vectors as rows of a PostgreSQL database, compared exactly: on the server, or here if kept."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from zeus_plugins.vector_stores.sqlite.collection_copy import CollectionCopy
from zeus_runtime.plugin.vector_store import CollectionEntries, FoundVector, VectorCollection

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from sqlalchemy import Connection

_FIRST: Final = 128
_GROWTH: Final = 8
_PATIENCE: Final = 2
"""The vectors are copied at the query with this number: a single query is cheaper on the server."""

_CHANGED: Final = """
INSERT INTO vector_collection_pg AS known (name, changes, removals) VALUES (%s, 1, 0)
ON CONFLICT (name) DO UPDATE SET changes = known.changes + 1 RETURNING key, changes"""
_STATE: Final = "SELECT key, changes, removals FROM vector_collection_pg WHERE name = %s"
_REMOVE: Final = "DELETE FROM vector_collection_pg_entry WHERE collection = %s AND id = ANY(%s)"
_REMOVED: Final = (
    "UPDATE vector_collection_pg SET changes = changes + 1, removals = removals + 1 WHERE key = %s"
)
_PUT: Final = """
INSERT INTO vector_collection_pg_entry (collection, id, changed, digest, vector)
SELECT %s, id, %s, digest, vector::vector
FROM unnest(%s::bigint[], %s::bytea[], %s::text[]) AS new (id, digest, vector)"""
_BLOCK: Final = 8_192
# Packed into arrays, because fetching a row for each vector takes longer than reading it.
_READ: Final = f"""
SELECT array_agg(id), string_agg(digest, ''), string_agg(vector_send(vector), '')
FROM (SELECT *, (row_number() OVER () - 1) / {_BLOCK} AS block FROM vector_collection_pg_entry
  WHERE collection = %s AND {{which}}) AS read GROUP BY block"""
_IDS: Final = "SELECT array_agg(id) FROM vector_collection_pg_entry WHERE collection = %s"
_SIZE: Final = "SELECT count(*) FROM vector_collection_pg_entry WHERE collection = %s"
_DIGESTS: Final = "SELECT id, digest FROM vector_collection_pg_entry WHERE collection = %s"
_COMPARED: Final = (
    "SELECT id, digest, -(vector <#> %(vector)s::text::vector) AS cosine FROM vector_collection_pg_entry"
    " WHERE collection = %(key)s"
)
_NEAREST: Final = f"{_COMPARED} ORDER BY vector <#> %(vector)s::text::vector, id LIMIT %(limit)s"
# Without OFFSET 0 the planner would compute each cosine once for every mention.
_NEXT: Final = f"""
SELECT id, digest, cosine FROM ({_COMPARED} OFFSET 0) AS compared
WHERE cosine < %(last)s OR (cosine = %(last)s AND id > %(last_id)s) ORDER BY cosine DESC, id LIMIT %(limit)s"""


class PgCollection(VectorCollection):
    """One collection. For one thread at a time.

    Args:
        most_bytes: of vectors that the process may keep; 0: the server compares all.
    """

    def __init__(self, name: str, dimension: int, most_bytes: int) -> None:
        self._name = name
        self._dimension = dimension
        self._most_bytes = most_bytes
        self._asked = 0
        self._written_in: object = None
        self._copy: _RowCopy | None = None

    @property
    def nbytes(self) -> int:
        """What is kept in the process."""
        return 0 if self._copy is None else self._copy.vectors.nbytes

    def forget(self) -> None:
        """Drop what is kept in the process."""
        self._copy = None

    def put(self, connection: Connection, entries: CollectionEntries) -> None:
        if not len(entries.ids):
            return
        raw = self._begin(connection)
        ids = [int(each) for each in entries.ids]
        # First: this locks the collection's row until the transaction ends, so the writers of a collection follow
        # each other.
        key, changes = raw.execute(_CHANGED, [self._name]).fetchone()
        # Deleted before they are inserted, as `_PUT` handles no conflict; copies learn of it by `removals`.
        if raw.execute(_REMOVE, [key, ids]).rowcount:
            raw.execute(_REMOVED, [key])
            changes += 1
        texts = _texts(np.asarray(entries.vectors, np.float32).reshape(len(ids), self._dimension))
        raw.execute(_PUT, [key, changes, ids, list(entries.digests), texts])

    def remove(self, connection: Connection, ids: Collection[int]) -> None:
        raw = self._begin(connection)
        state = self._state(raw)
        if state is not None and raw.execute(_REMOVE, [state[0], [int(each) for each in ids]]).rowcount:
            raw.execute(_REMOVED, [state[0]])

    def read(self, connection: Connection, ids: Collection[int]) -> CollectionEntries:
        raw = _raw(connection)
        state = self._state(raw)
        if state is None:
            return CollectionEntries([], [], np.zeros((0, self._dimension), np.float32))
        found = _read(raw, state[0], self._dimension, "id = ANY(%s)", [int(each) for each in ids])
        digests = [found[1][start : start + 16] for start in range(0, len(found[1]), 16)]
        return CollectionEntries(found[0].tolist(), digests, found[2])

    def digests(self, connection: Connection) -> Mapping[int, bytes]:
        raw = _raw(connection)
        state = self._state(raw)
        return {} if state is None else dict(raw.execute(_DIGESTS, [state[0]]).fetchall())

    def size(self, connection: Connection) -> int:
        raw = _raw(connection)
        state = self._state(raw)
        return 0 if state is None else int(raw.execute(_SIZE, [state[0]]).fetchone()[0])

    def nearest(self, connection: Connection, vector: NDArray[np.float32]) -> Iterator[FoundVector]:
        raw = _raw(connection)
        state = self._state(raw)
        if state is None:
            return iter(())
        # _is_copied counts the query, so it is asked first.
        if self._is_copied(raw, state[0]) and not self._is_written(connection):
            self._copy = self._copy or _RowCopy(self._dimension)
            # Before the iterator is returned: it reads the copy's arrays as they are at its first step.
            self._copy.refresh(raw, *state)
            return self._copy.nearest(vector)
        return _compared(raw, state[0], _texts(vector[None])[0])

    def drop(self, connection: Connection) -> None:
        self._begin(connection).execute("DELETE FROM vector_collection_pg WHERE name = %s", [self._name])

    def _begin(self, connection: Connection) -> Any:
        self._written_in = connection.get_transaction()
        return _raw(connection)

    def _is_written(self, connection: Connection) -> bool:
        """Whether this transaction wrote vectors: it may be rolled back, so no copy may contain them."""
        return self._written_in is not None and self._written_in is connection.get_transaction()

    def _is_copied(self, raw: Any, key: int) -> bool:
        if self._copy is not None:
            return True
        self._asked += 1
        if self._asked < _PATIENCE or not self._most_bytes:
            return False
        return bool(raw.execute(_SIZE, [key]).fetchone()[0] * self._dimension * 4 <= self._most_bytes)

    def _state(self, raw: Any) -> tuple[int, int, int] | None:
        """The key of the collection, and how often it was changed, and of that by removals."""
        found: tuple[int, int, int] | None = raw.execute(_STATE, [self._name]).fetchone()
        return found


class _RowCopy(CollectionCopy):
    """The vectors of a collection as they are at a number of changes."""

    def __init__(self, dimension: int) -> None:
        super().__init__(dimension)
        self._dimension = dimension
        # No collection has the key 0: an identity column begins at 1.
        self._state = (0, 0, 0)

    def refresh(self, raw: Any, key: int, changes: int, removals: int) -> None:
        """Read what was written since.

        A change holds the collection's row, so changes become visible in their order.
        """
        if self._state == (key, changes, removals):
            return
        known, since, removed = self._state
        # The collection was dropped and made again under its name, and its counts began anew.
        if known != key:
            self.keep(np.zeros(len(self.ids), np.bool_))
            since, removed = 0, 0
        # Only then must the numbers of all vectors be read, to see which are gone.
        if removals != removed:
            there = raw.execute(_IDS, [key]).fetchone()[0] or []
            self.keep(np.isin(self.ids, np.array(there, np.int64)))
        ids, digests, vectors = _read(raw, key, self._dimension, "changed > %s", since)
        # A vector that was written again replaces the one that is known.
        self.keep(~np.isin(self.ids, ids))
        self.add(ids, digests, vectors)
        self._state = (key, changes, removals)


def _compared(raw: Any, key: int, vector: str) -> Iterator[FoundVector]:
    """Yield all, nearest first, in growing blocks; each block compares every vector once."""
    values: dict[str, Any] = {"key": key, "vector": vector, "limit": _FIRST}
    rows = raw.execute(_NEAREST, values).fetchall()
    while True:
        yield from map(FoundVector._make, rows)
        if len(rows) < values["limit"]:
            return
        # Continues behind the last cosine and number, not by OFFSET, which would sort the earlier blocks again.
        values |= {"limit": values["limit"] * _GROWTH, "last": rows[-1][2], "last_id": rows[-1][0]}
        rows = raw.execute(_NEXT, values).fetchall()


def _read(
    raw: Any, key: int, dimension: int, which: str, value: object
) -> tuple[NDArray[np.int64], bytes, NDArray[np.float32]]:
    rows = raw.execute(_READ.format(which=which), [key, value]).fetchall()
    # As the server sends a vector: its dimension, two bytes of zero, the numbers.
    sent = np.dtype([("head", ">i2", 2), ("numbers", ">f4", dimension)])
    vectors = np.frombuffer(b"".join([row[2] for row in rows]), sent)["numbers"].astype(np.float32)
    ids = np.array([number for row in rows for number in row[0]], np.int64)
    return ids, b"".join([row[1] for row in rows]), vectors.reshape(len(ids), dimension)


def _texts(vectors: NDArray[np.float32]) -> list[str]:
    """Each vector in PostgreSQL's text form; nine digits keep each float32 to the last bit."""
    form = f"[{','.join(['%.9g'] * vectors.shape[1])}]"
    return [form % tuple(each) for each in vectors.tolist()]


def _raw(connection: Connection) -> Any:
    """Return psycopg's connection, in the transaction that SQLAlchemy began."""
    raw = connection.connection.dbapi_connection
    assert raw is not None
    return raw
