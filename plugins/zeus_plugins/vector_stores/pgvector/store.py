"""Stores vectors in the memories' PostgreSQL database, written in the same transaction as the memory's row.

The collection ``memory`` is the table ``memory_vector_pg``. Each row also has the columns that decide who may see the
vector, so the reach is a condition of the same query, and one index serves both. Vectors have length 1, so the inner
product is the cosine.

Repeated queries are compared in the process (``copies``), exactly, up to ``kept_mb``. The server compares the rest,
which is exact if it compares all vectors in reach. With HNSW (``options.exact``) a few of the nearest vectors may be
returned later than their rank, but none is lost.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from zeus_plugins.vector_stores.pgvector.collection import PgCollection
from zeus_plugins.vector_stores.pgvector.copies import Copies, VisibleCopies, count_change, places_of
from zeus_plugins.vector_stores.pgvector.graphs import INDEXABLE, indexed_dimensions, make_graphs
from zeus_plugins.vector_stores.pgvector.options import Options
from zeus_plugins.vector_stores.pgvector.schema import prepare
from zeus_runtime.plugin import MissingError, PlanContext
from zeus_runtime.plugin.vector_store import AtHand, Entry, VectorCollection, VectorQuery, VectorStore

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from sqlalchemy import Connection

_log = logging.getLogger(__name__)

FIRST: Final = 128
GROWTH: Final = 8
BY_GRAPH: Final = 1_000
"""So many vectors are read from the index before the rest is compared, because the graph costs more per vector."""
RECOUNT: Final = 256
"""The number of queries after which the vectors in reach are counted again."""

_PUT: Final = """
INSERT INTO memory_vector_pg
  (id, scope, scope_id, model, dimension, memory_type, visibility, created_by, changed, vector)
SELECT %s, scope, scope_id, %s, %s, %s, %s, %s, changes, %s::text::vector
FROM memory_vector_pg_place WHERE scope = %s AND scope_id = %s
ON CONFLICT (id) DO UPDATE SET scope = excluded.scope, scope_id = excluded.scope_id, model = excluded.model,
  dimension = excluded.dimension, memory_type = excluded.memory_type, visibility = excluded.visibility,
  created_by = excluded.created_by, changed = excluded.changed, vector = excluded.vector"""
_REMOVE: Final = "DELETE FROM memory_vector_pg WHERE id = ANY(%s)"
_QUERY: Final = "%(vector)s::text::vector"
_COMPARED: Final = f"SELECT id, -(vector <#> {_QUERY}) AS cosine FROM memory_vector_pg WHERE "
_FIRST: Final = "{compared} ORDER BY vector <#> " + _QUERY + ", id LIMIT %(limit)s"
# Without OFFSET 0 the planner would compute each cosine once for every mention.
_NEXT: Final = """
SELECT id, cosine FROM ({compared} OFFSET 0) AS compared
WHERE cosine < %(last)s OR (cosine = %(last)s AND id > %(last_id)s) ORDER BY cosine DESC, id LIMIT %(limit)s"""
_IN_REACH: Final = """
SELECT count(*), (SELECT reltuples FROM pg_class WHERE oid = to_regclass('memory_vector_pg'))
FROM memory_vector_pg WHERE {reach}"""
# Without `enable_sort` the planner takes the index, whose order needs no sort. `strict_order` makes an iterative scan
# give rows by distance, as `nearest` promises.
_SETTINGS: Final = """
SELECT current_setting('enable_sort'), set_config('enable_sort', 'off', true),
  set_config('hnsw.iterative_scan', 'strict_order', true), set_config('hnsw.ef_search', %(ef_search)s, true),
  set_config('hnsw.max_scan_tuples', '1000000', true), set_config('hnsw.scan_mem_multiplier', '4', true)"""
_BY_GRAPH: Final = """
SELECT id, -(vector <#> {vector}) FROM memory_vector_pg
WHERE {reach} ORDER BY vector::vector({dimension}) <=> {vector}::vector({dimension})"""


class PgVectorStore(VectorStore):
    """The table ``memory_vector_pg`` of the threads' database."""

    def __init__(self, options: Options | None = None) -> None:
        self._options = options or Options()
        self._counted: dict[tuple[object, ...], tuple[int, bool]] = {}
        self._indexed: frozenset[int] = frozenset()
        self._cursors = count()
        self._copies = Copies(self._options.kept_mb * 1_000_000 if self._options.exact != "never" else 0)
        self._written_in: object = None
        self._collections: OrderedDict[str, PgCollection] = OrderedDict()

    def prepare(self, connection: Connection) -> None:
        if connection.dialect.name != "postgresql":
            raise MissingError(
                f"the vector store pgvector cannot be used on {connection.dialect.name}",
                remedy="Set memory.vector_store to sqlite, or storage.url to a PostgreSQL database.",
            )
        prepare(connection)

    def index(self, connection: Connection) -> None:
        if self._options.exact != "always":
            many = 0 if self._options.exact == "never" else self._options.exact_up_to
            make_graphs(connection, many, self._copies.most_bytes)

    def put(self, connection: Connection, entries: Sequence[Entry]) -> None:
        if not entries:
            return
        self._written_in = connection.get_transaction()
        rows = [
            (
                entry.item.id,
                entry.embedding.model,
                entry.embedding.dimension,
                entry.item.memory_type,
                entry.item.visibility,
                entry.item.created_by,
                _text(entry.vector),
                entry.item.scope,
                entry.item.scope_id,
            )
            for entry in entries
        ]
        raw = _raw(connection)
        # One round trip. The counts come first: `_PUT` takes each vector's `changed` from the place's row.
        with raw.pipeline(), raw.cursor() as cursor:
            count_change(cursor, places_of(entries))
            cursor.executemany(_PUT, rows)

    def remove(self, connection: Connection, ids: Collection[str]) -> None:
        if ids:
            self._written_in = connection.get_transaction()
            _raw(connection).execute(_REMOVE, [list(ids)])

    def nearest(self, connection: Connection, query: VectorQuery) -> Iterator[tuple[str, float]]:
        if (copies := self._copies_of(connection, query)) is not None:
            yield from copies.nearest()
            return
        reach, values = _within(query)
        if reach is None:
            return
        given: set[str] = set()
        if self._is_large(connection, query, reach, values) and self._is_indexed(connection, query):
            for found in self._by_graph(connection, query, reach, values):
                if found[1] < query.at_least:
                    return
                given.add(found[0])
                yield found
        # All vectors once more, as HNSW may have passed some over; those that were given are left out.
        for found in _exact(connection, reach, values):
            if found[1] < query.at_least:
                return
            if found[0] not in given:
                given.add(found[0])
                yield found

    def cosines(self, connection: Connection, query: VectorQuery, ids: Collection[str]) -> dict[str, float]:
        if ids and (copies := self._copies_of(connection, query)) is not None:
            return copies.cosines(ids)
        reach, values = _within(query)
        if reach is None or not ids:
            return {}
        rows = _raw(connection).execute(
            f"{_COMPARED}{reach} AND id = ANY(%(ids)s)", {**values, "ids": list(ids)}
        )
        return dict(rows.fetchall())

    def at_hand(self, connection: Connection, query: VectorQuery) -> Sequence[AtHand] | None:
        copies = self._copies_of(connection, query)
        return None if copies is None else copies.at_hand()

    def ids(self, connection: Connection) -> set[str]:
        return {row[0] for row in _raw(connection).execute("SELECT id FROM memory_vector_pg")}

    def collection(self, name: str, dimension: int) -> VectorCollection:
        most_bytes = self._copies.most_bytes
        # Popped and put back at the end, so the order is that of the last use and the loop forgets the oldest first.
        found = self._collections.pop(name, None) or PgCollection(name, dimension, most_bytes)
        kept = sum(each.nbytes for each in self._collections.values())
        for each in self._collections.values():
            if kept <= most_bytes:
                break
            kept -= each.nbytes
            each.forget()
        self._collections[name] = found
        return found

    def close(self) -> None:
        self._copies.clear()
        self._collections.clear()

    def _copies_of(self, connection: Connection, query: VectorQuery) -> VisibleCopies | None:
        transaction = connection.get_transaction()
        if self._written_in is not None and self._written_in is transaction:
            return None  # this transaction's writes may be rolled back, so no copy may contain them
        self._written_in = None
        return self._copies.of(_raw(connection), query, transaction)

    def _is_large(
        self, connection: Connection, query: VectorQuery, reach: str, values: Mapping[str, Any]
    ) -> bool:
        """Whether HNSW is faster than comparing all: there are many vectors in reach, and a large enough share."""
        if self._options.exact != "auto":
            return self._options.exact == "never"
        key = (
            reach,
            query.embedding,
            query.user_id,
            *(part.scope_id for part in query.reach),
            query.memory_type,
        )
        asked, large = self._counted.get(key, (0, False))
        if asked % RECOUNT == 0:
            if len(self._counted) > 1_000:
                self._counted.clear()
            row = _raw(connection).execute(_IN_REACH.format(reach=reach), values).fetchone()
            # `reltuples` is an estimate, and -1 before the first ANALYZE.
            within, whole = row[0], max(row[0], row[1] or 0)
            large = within > self._options.exact_up_to and within * within > _SPREAD * whole
        self._counted[key] = (asked + 1, large)
        return large

    def _is_indexed(self, connection: Connection, query: VectorQuery) -> bool:
        """Whether there is a complete index by now; another process may have built it."""
        dimension = query.embedding.dimension
        if dimension not in self._indexed and dimension <= INDEXABLE:
            self._indexed = indexed_dimensions(connection)
        return dimension in self._indexed

    def _by_graph(
        self, connection: Connection, query: VectorQuery, reach: str, values: Mapping[str, Any]
    ) -> Iterator[tuple[str, float]]:
        raw = _raw(connection)
        dimension = int(query.embedding.dimension)
        # Statements are planned each time (connection_arguments), and the scan reads the settings when it begins.
        (sorts, *_) = raw.execute(_SETTINGS, {"ef_search": str(self._options.ef_search)}).fetchone()
        statement = _BY_GRAPH.format(
            vector=_QUERY, reach=reach.replace("%(dimension)s", str(dimension)), dimension=dimension
        )
        # On the server: rows are read as far as the caller asks, and the scan stops there.
        with raw.cursor(name=f"zeus_nearest_{next(self._cursors)}") as cursor:
            cursor.execute(statement, values)
            # The cursor is planned by now; without this the transaction's later statements could not sort.
            raw.execute("SELECT set_config('enable_sort', %s, true)", [sorts])
            size, read = FIRST, 0
            while read < BY_GRAPH:
                rows = cursor.fetchmany(size)
                yield from rows
                # `_exact` follows all the same: an iterative scan may end early, at `max_scan_tuples`.
                if len(rows) < size:
                    return
                read, size = read + size, size * 2


_SPREAD: Final = 5_000
"""The smaller the share of the index in reach, the more rows HNSW visits; a comparison visits each row in reach.

This is an estimate, not a measurement: it affects only the time.
"""


def _exact(connection: Connection, reach: str, values: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield all vectors in reach, nearest first, in growing blocks; each block compares every vector once.

    Vectors that another transaction adds in between may be left out, as if they were added after the query.
    """
    raw, limit = _raw(connection), FIRST
    compared = _COMPARED + reach
    rows = raw.execute(_FIRST.format(compared=compared), {**values, "limit": limit}).fetchall()
    while True:
        yield from rows
        if len(rows) < limit:
            return
        limit *= GROWTH
        after = {"last": rows[-1][1], "last_id": rows[-1][0], "limit": limit}
        rows = raw.execute(_NEXT.format(compared=compared), {**values, **after}).fetchall()


def _within(query: VectorQuery) -> tuple[str | None, dict[str, Any]]:
    """Return a query's reach, model and dimension as a condition with its values; None if nothing is in reach."""
    values: dict[str, Any] = {
        "vector": _text(query.vector),
        "model": query.embedding.model,
        "dimension": query.embedding.dimension,
        "user": query.user_id,
    }
    parts = []
    for number, part in enumerate(query.reach):
        values |= {f"scope{number}": part.scope, f"scope_id{number}": part.scope_id}
        grants = []
        for place, grant in enumerate(part.grants):
            name = f"visibilities{number}_{place}"
            values[name] = sorted(grant.visibilities)
            own = " AND created_by = %(user)s" if grant.own else ""
            grants.append(f"visibility = ANY(%({name})s){own}")
        if grants:
            covered = " OR ".join(grants)
            parts.append(f"(scope = %(scope{number})s AND scope_id = %(scope_id{number})s AND ({covered}))")
    if not parts:
        return None, values
    condition = f"model = %(model)s AND dimension = %(dimension)s AND ({' OR '.join(parts)})"
    if query.memory_type is not None:
        values["memory_type"] = query.memory_type
        condition += " AND memory_type = %(memory_type)s"
    return condition, values


def create(options: Options, _context: PlanContext) -> PgVectorStore:
    """Create the store; it uses the memories' database."""
    return PgVectorStore(options)


def _text(vector: NDArray[np.float32]) -> str:
    """Return the vector in PostgreSQL's text form, exact to the last bit of each float32."""
    return f"[{','.join(map(repr, vector.tolist()))}]"


def _raw(connection: Connection) -> Any:
    """Return psycopg's connection, in the transaction that SQLAlchemy began."""
    raw = connection.connection.dbapi_connection
    assert raw is not None
    return raw
