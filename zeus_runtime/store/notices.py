"""Notices between the processes that use one PostgreSQL database: heard by those that listen, stored nowhere."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING, Final

from sqlalchemy import bindparam, func, literal_column, select

from zeus_runtime.store.compiled_statements import Prepared, server_driver

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from zeus_runtime.store.database import Database

CHANNEL: Final = "zeus_service"
MOST_CHARACTERS: Final = 7_900
"""Of a notice in ASCII; PostgreSQL takes less than 8,000 bytes."""


# The function, because the statement NOTIFY takes no parameters.
_NOTIFY: Final = Prepared(select(func.pg_notify(literal_column(f"'{CHANNEL}'"), bindparam("told"))))


async def give_notice(database: Database, notices: Sequence[str]) -> None:
    """Send texts to all who listen; also to this process.

    Raises:
        RunError: the database cannot be reached.
    """

    def work(connection: Connection) -> None:
        # A notice changes no row, so its commit need not wait for the disk.
        server_driver(connection).execute("SET LOCAL synchronous_commit TO OFF")
        for each in notices:
            _NOTIFY.rows(connection, {"told": each})

    await database.run(work)


async def notices(database: Database) -> AsyncGenerator[str, None]:
    """The texts that processes send from now on, for ever; it opens a further connection.

    Behind pgbouncer in transaction mode the connection listens in vain, and without an error.

    Raises:
        MissingError, RunError: the database cannot be reached, or the connection is lost.
    """
    from psycopg import AsyncConnection, Error

    assert database.server is not None, "only PostgreSQL has notices"
    try:
        async with await AsyncConnection.connect(**database.server.arguments, autocommit=True) as connection:
            await connection.execute(f"LISTEN {CHANNEL}")
            async for each in connection.notifies():
                yield each.payload
    except Error as error:
        raise database.server.told(error) from error
