"""How a transaction on memories begins, and locks by name."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from sqlalchemy import text

from zeus_runtime.store.compiled_statements import sqlite_driver

if TYPE_CHECKING:
    from sqlalchemy import Connection


def begin_write(connection: Connection) -> None:
    """Take SQLite's write lock now: a transaction that reads first and writes then could be refused in between.

    Deleted content is overwritten with zeros.
    """
    raw = sqlite_driver(connection)
    if raw is not None:
        # A setting of the connection, not of the file.
        if _SECURED not in connection.info:
            raw.execute("PRAGMA secure_delete=ON")
            connection.info[_SECURED] = True
        # A caller may have begun already: a nested BEGIN is an error.
        if not raw.in_transaction:
            raw.execute("BEGIN IMMEDIATE")


_SECURED: Final = "zeus memory: what is deleted is overwritten"


def begin_read(connection: Connection) -> None:
    """See one state of the database in all statements that follow (SQLite)."""
    raw = sqlite_driver(connection)
    if raw is not None and not raw.in_transaction:
        raw.execute("BEGIN")


def lock(connection: Connection, name: str) -> None:
    """Hold the lock of this name alone until the transaction ends; SQLite has one writer anyway."""
    if connection.dialect.name == "postgresql":
        # An advisory lock has a 64-bit number. Two names with one number would only wait for each other.
        number = int.from_bytes(hashlib.sha256(f"zeus memory {name}".encode()).digest()[:8], signed=True)
        connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": number})
