"""Collections of vectors as rows of a SQLite database, many vectors to a row, and in the process once they are queried.

A row is never changed, only replaced by one with another key, so a copy in the process reads new rows alone.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from zeus_plugins.vector_stores.sqlite.collection_copy import CollectionCopy
from zeus_runtime.plugin.vector_store import (
    DIGEST_BYTES,
    CollectionEntries,
    FoundVector,
    VectorCollection,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from sqlalchemy import Connection

SCHEMA: Final = (
    """CREATE TABLE IF NOT EXISTS vector_collection (
      key INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, changes INTEGER NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS vector_collection_pack (
      key INTEGER PRIMARY KEY AUTOINCREMENT, collection INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
      ids BLOB NOT NULL, digests BLOB NOT NULL, vectors BLOB NOT NULL)""",
    """CREATE INDEX IF NOT EXISTS vector_collection_pack_of
      ON vector_collection_pack (collection, last, first)""",
)
_STATE: Final = "SELECT key, changes FROM vector_collection WHERE name = ?"
_NEW: Final = "INSERT OR IGNORE INTO vector_collection (name, changes) VALUES (?, 0)"
_CHANGED: Final = "UPDATE vector_collection SET changes = changes + 1 WHERE key = ?"
_PUT: Final = """
INSERT INTO vector_collection_pack (collection, first, last, ids, digests, vectors) VALUES (?, ?, ?, ?, ?, ?)"""
_AROUND: Final = (
    "SELECT key, ids, digests, vectors FROM vector_collection_pack"
    " WHERE collection = ? AND last >= ? AND first <= ? ORDER BY key"
)
_KEYS: Final = "SELECT key FROM vector_collection_pack WHERE collection = ?"
_READ: Final = (
    "SELECT key, ids, digests, vectors FROM vector_collection_pack WHERE key IN ({keys}) ORDER BY key"
)
_PACK: Final = 64
"""Vectors in a row: each row has a cost, and a removal rewrites what else is in the row."""
# SQLite before 3.32 takes 999 parameters in a statement.
_PARAMETERS: Final = 500


class SqliteCollection(VectorCollection):
    """One collection. For one thread at a time."""

    def __init__(self, name: str, dimension: int) -> None:
        self._name = name
        self._dimension = dimension
        self._written_in: object = None
        self._copy: _PackCopy | None = None

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
        raw = _raw(connection)
        # Ignored if it exists: another process may have made the collection before this transaction.
        raw.execute(_NEW, (self._name,))
        key = self._begin(connection)
        assert key is not None
        ids = np.asarray(entries.ids, np.int64)
        # Old vectors of these numbers go first, as they may be in rows with others.
        self._take(raw, key, ids)
        order = np.argsort(ids, kind="stable")
        vectors = np.asarray(entries.vectors, "<f4").reshape(len(ids), self._dimension)
        self._write(
            raw, key, ids[order], b"".join([entries.digests[place] for place in order]), vectors[order]
        )

    def remove(self, connection: Connection, ids: Collection[int]) -> None:
        if ids and (key := self._begin(connection)) is not None:
            self._take(_raw(connection), key, np.array(sorted(ids), np.int64))

    def read(self, connection: Connection, ids: Collection[int]) -> CollectionEntries:
        found: list[_Pack] = []
        state = _state(connection, self._name)
        if state is not None and ids:
            wanted = np.array(sorted(ids), np.int64)
            for _, pack in self._around(_raw(connection), state[0], wanted):
                found.append(pack.chosen(np.isin(pack.ids, wanted)))
        digests = b"".join([each.digests for each in found])
        return CollectionEntries(
            [number for each in found for number in each.ids.tolist()],
            _parted(digests),
            np.concatenate([np.zeros((0, self._dimension), np.float32), *(each.vectors for each in found)]),
        )

    def digests(self, connection: Connection) -> Mapping[int, bytes]:
        state = _state(connection, self._name)
        if state is None:
            return {}
        query = "SELECT ids, digests FROM vector_collection_pack WHERE collection = ?"
        found: dict[int, bytes] = {}
        for ids, digests in _raw(connection).execute(query, (state[0],)):
            found |= zip(np.frombuffer(ids, "<i8").tolist(), _parted(digests), strict=True)
        return found

    def size(self, connection: Connection) -> int:
        state = _state(connection, self._name)
        query = "SELECT sum(length(digests)) FROM vector_collection_pack WHERE collection = ?"
        row = (None,) if state is None else _raw(connection).execute(query, (state[0],)).fetchone()
        return (row[0] or 0) // DIGEST_BYTES

    def nearest(self, connection: Connection, vector: NDArray[np.float32]) -> Iterator[FoundVector]:
        state = _state(connection, self._name)
        if state is None:
            return iter(())
        if self._written_in is not None and self._written_in is connection.get_transaction():
            # This transaction's writes may be rolled back: they are used for this query, and not kept.
            copy = _PackCopy(self._dimension)
        else:
            copy = self._copy = self._copy or _PackCopy(self._dimension)
        copy.refresh(_raw(connection), *state)
        return copy.nearest(vector)

    def drop(self, connection: Connection) -> None:
        key = self._begin(connection)
        if key is not None:
            raw = _raw(connection)
            raw.execute("DELETE FROM vector_collection_pack WHERE collection = ?", (key,))
            raw.execute("DELETE FROM vector_collection WHERE key = ?", (key,))

    def _begin(self, connection: Connection) -> int | None:
        """Count a change; the collection's key, None if it does not exist."""
        self._written_in = connection.get_transaction()
        state = _state(connection, self._name)
        if state is None:
            return None
        _raw(connection).execute(_CHANGED, (state[0],))
        return state[0]

    def _around(self, raw: sqlite3.Connection, key: int, ids: NDArray[np.int64]) -> list[tuple[int, _Pack]]:
        """The rows that may hold some of these, which are not empty."""
        rows = raw.execute(_AROUND, (key, int(ids.min()), int(ids.max()))).fetchall()
        return [(row, _Pack.of(columns, self._dimension)) for row, *columns in rows]

    def _take(self, raw: sqlite3.Connection, key: int, ids: NDArray[np.int64]) -> None:
        for row, pack in self._around(raw, key, ids):
            left = ~np.isin(pack.ids, ids)
            if left.all():
                continue
            raw.execute("DELETE FROM vector_collection_pack WHERE key = ?", (row,))
            self._write(raw, key, *pack.chosen(left))

    def _write(
        self,
        raw: sqlite3.Connection,
        key: int,
        ids: NDArray[np.int64],
        digests: bytes,
        vectors: NDArray[np.float32],
    ) -> None:
        """Write rows of vectors in the order of their numbers."""
        rows = []
        for start in range(0, len(ids), _PACK):
            some = ids[start : start + _PACK]
            rows.append(
                (
                    key,
                    int(some[0]),
                    int(some[-1]),
                    some.astype("<i8").tobytes(),
                    digests[start * DIGEST_BYTES : (start + len(some)) * DIGEST_BYTES],
                    vectors[start : start + len(some)].astype("<f4").tobytes(),
                )
            )
        raw.executemany(_PUT, rows)


class _Pack(NamedTuple):
    """The vectors of a row."""

    ids: NDArray[np.int64]
    digests: bytes
    vectors: NDArray[np.float32]

    @staticmethod
    def of(row: Sequence[bytes], dimension: int) -> _Pack:
        ids, digests, vectors = row
        return _Pack(np.frombuffer(ids, "<i8"), digests, np.frombuffer(vectors, "<f4").reshape(-1, dimension))

    def chosen(self, which: NDArray[np.bool_]) -> _Pack:
        whole = np.frombuffer(self.digests, np.uint8).reshape(-1, DIGEST_BYTES)
        return _Pack(self.ids[which], whole[which].tobytes(), self.vectors[which])


class _PackCopy(CollectionCopy):
    """The vectors of a collection's rows as they are at a number of changes."""

    def __init__(self, dimension: int) -> None:
        super().__init__(dimension)
        self._dimension = dimension
        self._rows: NDArray[np.int64] = np.zeros(0, np.int64)
        self._state = (0, 0)

    def refresh(self, raw: sqlite3.Connection, key: int, changes: int) -> None:
        """Read what was written since."""
        if self._state == (key, changes):
            return
        # The keys alone are few, one for 64 vectors; AUTOINCREMENT never gives a key twice, so a known key is a known
        # row.
        there = np.array([row[0] for row in raw.execute(_KEYS, (key,))], np.int64)
        kept = np.isin(self._rows, there)
        if not kept.all():
            self.keep(kept)
            self._rows = self._rows[kept]
        new = np.setdiff1d(there, self._rows).tolist()
        rows = []
        for start in range(0, len(new), _PARAMETERS):
            some = new[start : start + _PARAMETERS]
            rows += raw.execute(_READ.format(keys=", ".join("?" * len(some))), some).fetchall()
        if rows:
            packs = [_Pack.of(columns, self._dimension) for _, *columns in rows]
            self.add(
                np.concatenate([each.ids for each in packs]),
                b"".join([each.digests for each in packs]),
                np.concatenate([each.vectors for each in packs]),
            )
            sizes = [len(each.ids) for each in packs]
            # One key for each vector, in step with `ids`, so that the same mask serves both.
            self._rows = np.concatenate((self._rows, np.repeat([row[0] for row in rows], sizes)))
        self._state = (key, changes)


def _state(connection: Connection, name: str) -> tuple[int, int] | None:
    """The key of a collection, and how often it was changed."""
    found: tuple[int, int] | None = _raw(connection).execute(_STATE, (name,)).fetchone()
    return found


def _parted(digests: bytes) -> Sequence[bytes]:
    return [digests[start : start + DIGEST_BYTES] for start in range(0, len(digests), DIGEST_BYTES)]


def _raw(connection: Connection) -> sqlite3.Connection:
    raw: object = connection.connection.dbapi_connection
    assert isinstance(raw, sqlite3.Connection)
    return raw
