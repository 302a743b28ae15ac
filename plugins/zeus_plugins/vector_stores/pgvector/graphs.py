"""Builds the HNSW indexes, one for each dimension with many vectors, while other processes read and write.

Building one takes minutes for 100,000 vectors. So it happens on a separate connection, outside a transaction, and
without a lock that a search or a save waits for (``CONCURRENTLY``).
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any, Final

from zeus_plugins.vector_stores.pgvector.copies import copied_bytes

if TYPE_CHECKING:
    from sqlalchemy import Connection

_log = logging.getLogger(__name__)

INDEXABLE: Final = 2_000
"""The maximum dimension for HNSW; longer vectors are always compared one by one."""

_NAME: Final = "memory_vector_pg_hnsw_{dimension}"
_INDEXES: Final = """
SELECT relname, indisvalid FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
WHERE indrelid = to_regclass('memory_vector_pg')"""
_TABLE: Final = """
SELECT reltuples, pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = to_regclass('memory_vector_pg')"""
_COUNTED: Final = "SELECT dimension, count(*) FROM memory_vector_pg GROUP BY dimension"
# A process that builds an index holds this lock until the index is complete, over any number of transactions.
_ALONE: Final = "LOCK TABLE memory_vector_pg IN SHARE UPDATE EXCLUSIVE MODE NOWAIT"
_INDEX: Final = """
CREATE INDEX CONCURRENTLY IF NOT EXISTS {name} ON memory_vector_pg
USING hnsw ((vector::vector({dimension})) vector_cosine_ops) WHERE dimension = {dimension}"""
_DROP: Final = "DROP INDEX IF EXISTS {name}"
_LIMITS: Final = (
    "SET statement_timeout = 0",
    "SET lock_timeout = 0",
    # The graph is built in this much memory; a larger graph takes longer.
    "SET maintenance_work_mem = '256MB'",
)


def indexed_dimensions(connection: Connection) -> frozenset[int]:
    """Return the dimensions that have a complete, usable HNSW index."""
    names = (
        re.fullmatch(_NAME.format(dimension=r"(\d+)"), name) for name, valid in _found(connection) if valid
    )
    return frozenset(int(name[1]) for name in names if name)


def make_graphs(connection: Connection, many: int, kept_bytes: int) -> None:
    """Build an index for each dimension that has more than ``many`` vectors, unless processes keep copies of them all.

    If the role may not create indexes, ``zeus db upgrade`` must build them. Without an index, or while another process
    builds it, all vectors are compared.

    Args:
        connection: a connection to the database, outside a transaction.
        kept_bytes: the bytes of copies that a process keeps.
    """
    from psycopg import Error

    with connection.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as own:
        raw: Any = own.connection.dbapi_connection
        rows, owned = raw.execute(_TABLE).fetchone()
        # -1 before the first ANALYZE or VACUUM: then the vectors are counted.
        if 0 <= rows <= many:
            return
        whole = indexed_dimensions(own)
        wanted = [
            dimension
            for dimension, number in _counted(raw)
            if number > many
            and copied_bytes(number, dimension) > kept_bytes
            and dimension <= INDEXABLE
            and dimension not in whole
        ]
        if not wanted:
            return
        if not owned:
            _log.warning(_ASK_THE_OWNER)
            return
        # A pooler gave another server process for this statement: the settings below would reach another session.
        if raw.info.backend_pid != raw.execute("SELECT pg_backend_pid()").fetchone()[0]:
            _log.warning(_POOLED)
            return
        try:
            for statement in _LIMITS:
                raw.execute(statement)
            for dimension in wanted:
                _make(raw, _NAME.format(dimension=dimension), dimension)
        except Error as error:
            # The connection is lost: SQLAlchemy must not roll it back or close it as if it were open.
            if raw.closed:
                own.invalidate()
            _log.warning("the HNSW index could not be built, so all vectors are compared: %s", error)


def _counted(raw: Any) -> list[tuple[int, int]]:
    """Return the number of vectors of each dimension, of all users."""
    with raw.transaction():
        # For this transaction, row-level security shows the rows of all users.
        raw.execute("SELECT set_config('zeus.upkeep', 'on', true)")
        return [(int(dimension), number) for dimension, number in raw.execute(_COUNTED)]


_ASK_THE_OWNER: Final = (
    "many vectors have no HNSW index yet and are all compared:"
    " run `zeus db upgrade` as the owner of the tables"
)
_POOLED: Final = (
    "many vectors have no HNSW index yet and are all compared, and the connection uses a pooler: run `zeus db"
    " upgrade` with a storage.url that reaches the server directly"
)


def _make(raw: Any, name: str, dimension: int) -> None:
    from psycopg.errors import LockNotAvailable

    if name in dict(raw.execute(_INDEXES).fetchall()):
        # Another process is building this index, or was killed and left it incomplete.
        try:
            with raw.transaction():
                raw.execute(_ALONE)
                # Read again under the lock: between the two reads the other process may have completed the index.
                if dict(raw.execute(_INDEXES).fetchall()).get(name) is False:
                    raw.execute(_DROP.format(name=name))
        except LockNotAvailable:
            _log.info("%s is being built by another process", name)
            return
    raw.execute(_INDEX.format(name=name, dimension=dimension))


def _found(connection: Connection) -> list[tuple[str, bool]]:
    return [(row[0], row[1]) for row in connection.exec_driver_sql(_INDEXES)]
