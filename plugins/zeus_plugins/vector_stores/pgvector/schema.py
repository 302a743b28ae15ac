"""The tables of the vectors and their row-level security."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from zeus_runtime.plugin import MissingError
from zeus_runtime.plugin.checkpointer import secure_rows

if TYPE_CHECKING:
    from sqlalchemy import Connection

_OLDEST: Final = (0, 8)
"""The first pgvector with iterative scans: it continues a search if a condition leaves too few results."""

_TABLE: Final = (
    """CREATE TABLE IF NOT EXISTS memory_vector_pg (
      id text PRIMARY KEY REFERENCES memory_item (id) ON DELETE CASCADE, scope text NOT NULL, scope_id text NOT NULL,
      model text NOT NULL, dimension integer NOT NULL, memory_type text NOT NULL, visibility text NOT NULL,
      created_by text NOT NULL, vector vector NOT NULL)""",
    # The place's change count when the vector was stored; copies use it to find new vectors.
    "ALTER TABLE memory_vector_pg ADD COLUMN IF NOT EXISTS changed bigint NOT NULL DEFAULT 0",
    """CREATE TABLE IF NOT EXISTS memory_vector_pg_place (
      scope text, scope_id text, changes bigint NOT NULL, removals bigint NOT NULL, PRIMARY KEY (scope, scope_id))""",
    # A trigger, because most vectors are deleted together with their item's row.
    """CREATE OR REPLACE FUNCTION memory_vector_pg_removed() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      INSERT INTO memory_vector_pg_place AS place (scope, scope_id, changes, removals)
      SELECT DISTINCT scope, scope_id, 1, 1 FROM gone ORDER BY scope, scope_id
      ON CONFLICT (scope, scope_id) DO UPDATE SET changes = place.changes + 1, removals = place.removals + 1;
      RETURN NULL;
    END $$""",
    """CREATE OR REPLACE TRIGGER memory_vector_pg_removed AFTER DELETE ON memory_vector_pg
      REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION memory_vector_pg_removed()""",
    # In the row itself if it fits: reading it from the TOAST table would take longer than comparing it.
    "ALTER TABLE memory_vector_pg ALTER COLUMN vector SET STORAGE MAIN",
    """CREATE INDEX IF NOT EXISTS memory_vector_pg_of
      ON memory_vector_pg (scope, scope_id, model, dimension, visibility, created_by)""",
    # For copies, to find the new vectors of a place.
    "CREATE INDEX IF NOT EXISTS memory_vector_pg_changed ON memory_vector_pg (scope, scope_id, changed)",
    """CREATE TABLE IF NOT EXISTS vector_collection_pg (
      key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL UNIQUE, changes bigint NOT NULL,
      removals bigint NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS vector_collection_pg_entry (
      collection bigint REFERENCES vector_collection_pg (key) ON DELETE CASCADE, id bigint, changed bigint NOT NULL,
      digest bytea NOT NULL, vector vector NOT NULL, PRIMARY KEY (collection, id))""",
    "ALTER TABLE vector_collection_pg_entry ALTER COLUMN vector SET STORAGE MAIN",
    """CREATE INDEX IF NOT EXISTS vector_collection_pg_entry_changed
      ON vector_collection_pg_entry (collection, changed)""",
)
_SECURED: Final = ("memory_vector_pg", "vector_collection_pg", "vector_collection_pg_entry")
_STATE: Final = """
SELECT (SELECT extversion FROM pg_extension WHERE extname = 'vector'), to_regtype('vector') IS NOT NULL,
  EXISTS (SELECT FROM pg_available_extensions WHERE name = 'vector'),
  to_regclass('memory_vector_pg') IS NOT NULL,
  (SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = to_regclass('memory_vector_pg')),
  to_regclass('memory_vector_pg_place') IS NOT NULL, to_regclass('memory_vector_pg_changed') IS NOT NULL
    AND to_regclass('vector_collection_pg_entry_changed') IS NOT NULL"""


def prepare(connection: Connection) -> None:
    """Create the tables.

    Raises:
        MissingError: the extension is missing or too old, or the tables are of an older version and another role owns
            them.
    """
    version, usable, available, there, owned, counted, indexed = connection.exec_driver_sql(_STATE).one()
    _require(version, usable=usable, available=available)
    if there and not owned and not (counted and indexed):
        raise MissingError(
            "the vector store pgvector cannot be used: its tables are of an older version",
            remedy="Run `zeus db upgrade` once, as the role that owns the tables.",
        )
    if not (there and counted and indexed):
        for statement in _TABLE:
            connection.exec_driver_sql(statement)
        for table in _SECURED:
            secure_rows(connection, table)


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
