"""The table of the vectors, its indexes and its row-level security."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Final

from zeus_runtime import MissingError, secure_rows

if TYPE_CHECKING:
    from sqlalchemy import Connection

_log = logging.getLogger(__name__)

INDEXABLE: Final = 2_000
"""Dimensions that HNSW takes; longer vectors are always compared one by one."""
_OLDEST: Final = (0, 8)
"""The first pgvector that goes on searching where a condition leaves too little (iterative scan)."""

_TABLE: Final = (
    """CREATE TABLE IF NOT EXISTS memory_vector_pg (
      id text PRIMARY KEY REFERENCES memory_item (id) ON DELETE CASCADE, scope text NOT NULL, scope_id text NOT NULL,
      model text NOT NULL, dimension integer NOT NULL, memory_type text NOT NULL, visibility text NOT NULL,
      created_by text NOT NULL, vector vector NOT NULL)""",
    # The place's count of changes when the vector was put, by which copies of it find what is new.
    "ALTER TABLE memory_vector_pg ADD COLUMN IF NOT EXISTS changed bigint NOT NULL DEFAULT 0",
    """CREATE TABLE IF NOT EXISTS memory_vector_pg_place (
      scope text, scope_id text, changes bigint NOT NULL, removals bigint NOT NULL, PRIMARY KEY (scope, scope_id))""",
    # A trigger, because most vectors go with their item's row.
    """CREATE OR REPLACE FUNCTION memory_vector_pg_removed() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      INSERT INTO memory_vector_pg_place AS place (scope, scope_id, changes, removals)
      SELECT DISTINCT scope, scope_id, 1, 1 FROM gone ORDER BY scope, scope_id
      ON CONFLICT (scope, scope_id) DO UPDATE SET changes = place.changes + 1, removals = place.removals + 1;
      RETURN NULL;
    END $$""",
    """CREATE OR REPLACE TRIGGER memory_vector_pg_removed AFTER DELETE ON memory_vector_pg
      REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION memory_vector_pg_removed()""",
    # In the row itself as long as it fits there: reading it from another table would take longer than comparing it.
    "ALTER TABLE memory_vector_pg ALTER COLUMN vector SET STORAGE MAIN",
    """CREATE INDEX IF NOT EXISTS memory_vector_pg_of
      ON memory_vector_pg (scope, scope_id, model, dimension, visibility, created_by)""",
)
_STATE: Final = """
SELECT (SELECT extversion FROM pg_extension WHERE extname = 'vector'), to_regtype('vector') IS NOT NULL,
  EXISTS (SELECT FROM pg_available_extensions WHERE name = 'vector'),
  (SELECT reltuples FROM pg_class WHERE oid = to_regclass('memory_vector_pg')),
  (SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = to_regclass('memory_vector_pg')),
  to_regclass('memory_vector_pg_place') IS NOT NULL"""
_INDEXES: Final = """
SELECT relname FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
WHERE indrelid = to_regclass('memory_vector_pg') AND indisvalid"""
_NAME: Final = re.compile(r"memory_vector_pg_hnsw_(\d+)")
_COUNTED: Final = "SELECT dimension, count(*) FROM memory_vector_pg GROUP BY dimension"
_INDEX: Final = """
CREATE INDEX IF NOT EXISTS memory_vector_pg_hnsw_{dimension} ON memory_vector_pg
USING hnsw ((vector::vector({dimension})) vector_cosine_ops) WHERE dimension = {dimension}"""


def prepare(connection: Connection, many: int | None, kept_bytes: int) -> None:
    """Make the tables, and an HNSW index for each dimension of which there are more than ``many`` vectors.

    No index is made for what a process keeps whole (``kept_bytes``): to make one takes minutes for 100,000.

    A role that may not make indexes leaves that to ``zeus db upgrade``; without one, all vectors are compared.

    Args:
        many: None for no index.

    Raises:
        MissingError: the extension is missing or too old, or the tables are of an older version and somebody else's.
    """
    version, usable, available, rows, owned, counted = connection.exec_driver_sql(_STATE).one()
    _require(version, usable=usable, available=available)
    if rows is not None and not counted and not owned:
        raise MissingError(
            "the vector store pgvector cannot be used: its tables are an older version's",
            remedy="Run `zeus db upgrade` once, as the role that owns the tables.",
        )
    if rows is None or not counted:
        for statement in _TABLE:
            connection.exec_driver_sql(statement)
        secure_rows(connection, "memory_vector_pg")
    if rows is None:
        return
    if many is None or 0 <= rows <= many:
        return
    found = indexed_dimensions(connection)
    wanted = [
        dimension
        for dimension, number in connection.exec_driver_sql(_COUNTED)
        if number > max(many, kept_bytes // (6 * dimension))
        and dimension <= INDEXABLE
        and dimension not in found
    ]
    if wanted and not owned:
        _log.warning("many vectors have no HNSW index yet: run `zeus db upgrade` as the owner of the tables")
        return
    for dimension in wanted:
        # Its graph is built in memory as far as this goes; a larger one takes longer.
        connection.exec_driver_sql("SET LOCAL statement_timeout = 0")
        connection.exec_driver_sql("SET LOCAL maintenance_work_mem = '256MB'")
        connection.exec_driver_sql(_INDEX.format(dimension=int(dimension)))


def indexed_dimensions(connection: Connection) -> frozenset[int]:
    """Dimensions for which there is an HNSW index."""
    names = (_NAME.fullmatch(row[0]) for row in connection.exec_driver_sql(_INDEXES))
    return frozenset(int(name[1]) for name in names if name)


def _require(version: str | None, *, usable: bool, available: bool) -> None:
    if version is None:
        how = "Run CREATE EXTENSION vector in this database, as a superuser"
        raise MissingError(
            "the vector store pgvector cannot be used: the database has no extension 'vector'"
            + ("" if available else ", and the server does not have pgvector installed"),
            remedy=f"{how}." if available else f"Install pgvector on the server. {how}.",
        )
    if not usable:
        raise MissingError(
            "the vector store pgvector cannot be used: the type 'vector' is in a schema that search_path does not name",
            remedy="Add the extension's schema to search_path, or move it: ALTER EXTENSION vector SET SCHEMA public.",
        )
    if tuple(int(each) for each in re.findall(r"\d+", version)[:2]) < _OLDEST:
        raise MissingError(
            f"the vector store pgvector cannot be used: the database's extension 'vector' is {version}, older than 0.8",
            remedy="Install pgvector 0.8 or newer and run ALTER EXTENSION vector UPDATE as a superuser.",
        )
