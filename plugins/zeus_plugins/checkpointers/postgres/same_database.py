"""Finds out whether the checkpoints and the thread log are in the same database, even if their URLs differ."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from psycopg import AsyncConnection, Error

from zeus_runtime.plugin.checkpointer import connection_arguments, explained_postgres_error, without_password

_THREADS = (
    "SELECT to_regclass('thread')::oid, coalesce(has_table_privilege(to_regclass('thread'), 'SELECT')"
    " AND has_table_privilege(to_regclass('thread'), 'UPDATE'), false)"
)


async def is_beside(url: str, log_url: str) -> bool:
    """Return whether ``url`` reaches the log's table of threads, with the rights to bind writes to its rows.

    Comparing URLs proves nothing: a host has several names, and parts with a default can be left out. So the servers
    are asked. If one connection takes a lock and the other then cannot get it, both are in the same database: such
    locks belong to a database, and taking one needs no right.

    Raises:
        MissingError: one of the databases cannot be reached.
        RunError: one of them failed.
    """
    if url == log_url:
        return True
    if not log_url.startswith("postgres"):
        return False
    # Random, so that checks of two processes do not meet; 63 bits, because the lock's key is a signed bigint.
    key = secrets.randbits(63)
    async with _connected(log_url) as log, _connected(url) as own:
        await log.execute("SELECT pg_advisory_xact_lock(%s)", (key,))
        (is_free,) = await _row(own, "SELECT pg_try_advisory_xact_lock(%s)", key)
        if is_free:
            return False
        (threads, _), (seen, may_lock) = await _row(log, _THREADS), await _row(own, _THREADS)
        return threads is not None and threads == seen and bool(may_lock)


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[AsyncConnection[Any]]:
    """Yield a connection whose transaction is rolled back."""
    arguments: dict[str, Any] = connection_arguments(url)
    connection = None
    try:
        connection = await AsyncConnection.connect(**arguments)
        yield connection
    except Error as error:
        is_lost = connection is not None and connection.closed
        password = arguments.get("password")
        raise explained_postgres_error(error, without_password(url), password, is_lost=is_lost) from error
    finally:
        if connection is not None:
            await connection.close()


async def _row(connection: AsyncConnection[Any], statement: str, *values: Any) -> tuple[Any, ...]:
    cursor = await connection.execute(statement.encode(), values or None)
    row = await cursor.fetchone()
    assert row is not None, "this query returns one row"
    return tuple(row)
