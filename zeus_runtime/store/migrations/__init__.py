"""The revisions of the schema, oldest first, for Alembic; ``zeus_runtime.store.schema`` runs them.

A revision is written by hand: a file in ``versions`` with the next number, and that number in ``schema.HEAD``. A new
database is made from ``tables.TABLES`` instead; a test checks that both agree. A revision that rewrites rows has a
function ``rewrites_data``, which says whether this database has such rows; then a SQLite file is copied before the
revision runs.
"""
