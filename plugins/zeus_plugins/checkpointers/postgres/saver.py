"""LangGraph's saver on PostgreSQL, with one connection that is reopened when it was lost."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from typing import Any, Final, NamedTuple, Self

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from psycopg import AsyncConnection, AsyncCursor, Error
from psycopg.abc import Params, Query
from psycopg.errors import UndefinedTable
from psycopg.pq import TransactionStatus
from psycopg.rows import DictRow, dict_row

from zeus_runtime.plugin.checkpointer import (
    claim_lost,
    connection_arguments,
    connection_may_be_gone,
    epoch_of,
    explained_postgres_error,
    without_password,
)

_LOCK = int.from_bytes(b"zeuscp", "big")
_COPIED = {
    "checkpoints": "checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata",
    "checkpoint_blobs": "checkpoint_ns, channel, version, type, blob",
    "checkpoint_writes": "checkpoint_ns, checkpoint_id, task_id, idx, channel, type, blob, task_path",
}
_DELETE_RUNS = (
    "DELETE FROM checkpoint_writes w USING checkpoints c WHERE w.thread_id = c.thread_id"
    " AND w.checkpoint_ns = c.checkpoint_ns AND w.checkpoint_id = c.checkpoint_id"
    " AND c.metadata ->> 'run_id' = ANY(%s)",
    "WITH gone AS (DELETE FROM checkpoints WHERE metadata ->> 'run_id' = ANY(%s)"
    " RETURNING thread_id, checkpoint_ns, checkpoint_id)"
    " DELETE FROM checkpoint_blobs b USING gone g WHERE b.thread_id = g.thread_id AND b.checkpoint_ns = g.checkpoint_ns"
    " AND NOT EXISTS (SELECT FROM checkpoints c WHERE c.thread_id = b.thread_id"
    " AND c.checkpoint_ns = b.checkpoint_ns AND c.checkpoint -> 'channel_versions' ->> b.channel = b.version"
    " AND (c.thread_id, c.checkpoint_ns, c.checkpoint_id) NOT IN (SELECT * FROM gone))",
)
_WITH_OLDER: Final = (
    "SELECT DISTINCT thread_id FROM checkpoints WHERE thread_id = ANY(%s)"
    " GROUP BY thread_id, checkpoint_ns HAVING count(*) > 1"
)
# Takes `VALUES (%s, %s, %s)` of the stock saver's INSERTs, and nothing with a value written out.
_VALUES: Final = re.compile(r"VALUES \(([%s, ]+)\)")
_IS_EPOCH: Final = "WHERE zeus_in_epoch(%s, %s)"


class _Fence(NamedTuple):
    """The session and the epoch in which a checkpoint may be written."""

    session: str
    epoch: int


_fence: ContextVar[_Fence | None] = ContextVar("fence", default=None)
"""The fence of this task's current write. A context variable, because the stock saver opens its cursors itself."""


class _InEpoch(AsyncCursor[DictRow]):
    """A cursor that inserts rows only in the fence's epoch, and locks the epoch until the commit.

    The condition is part of the INSERT: a separate query would cost a step more time than the write itself.
    """

    fence: _Fence

    async def execute(self, query: Query, params: Params | None = None, **options: Any) -> Self:
        if params is None:
            return await super().execute(query, **options)
        return await super().execute(_in_epoch(query), (*params, *self.fence), **options)

    async def executemany(
        self, query: Query, params_seq: Iterable[Params], *, returning: bool = False
    ) -> None:
        rows = [(*params, *self.fence) for params in params_seq]
        # The values of the fence come last: its WHERE follows all others, and no parameter follows it.
        await super().executemany(_in_epoch(query), rows, returning=returning)


class PostgresSaver(AsyncPostgresSaver):
    """The stock saver with one connection that one task uses at a time.

    A connection pool would gain nothing: the stock saver takes one lock for each instance even with a pool, and an
    agent's checkpoints are a kilobyte each.

    Args:
        url: the database, in the form that ``storage.url`` takes.
        serde: converts values to bytes; by default LangGraph's msgpack, which creates only objects of a harmless list.
        beside_log: whether the thread log is in the same database; writes are then bound to the session's claim.
    """

    def __init__(
        self, url: str, *, serde: SerializerProtocol | None = None, beside_log: bool = False
    ) -> None:
        # Set here, because LANGGRAPH_STRICT_MSGPACK has no effect when LangGraph is already imported.
        super().__init__(
            None,  # type: ignore[arg-type]  # `_cursor` opens and reopens it
            serde=serde or JsonPlusSerializer(allowed_msgpack_modules=None),
        )
        self._beside_log = beside_log
        self._name = without_password(url)
        self._arguments = connection_arguments(url)
        self._open: AsyncConnection[DictRow] | None = None
        self._heard_at = 0.0

    async def setup(self) -> None:
        """Create the tables or migrate them to this version of the saver; do nothing if they are current."""
        newest = len(self.MIGRATIONS) - 1
        async with self._cursor() as cursor:
            # Read again under the lock below: another process may run the migrations just now.
            if await _version(cursor) >= newest:
                return
            async with cursor.connection.transaction():
                await cursor.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
                # Makes the table of versions, which `_version` reads next.
                await cursor.execute(self.MIGRATIONS[0])
                for version in range(await _version(cursor) + 1, newest + 1):
                    # In one transaction, so that two processes that start together do not wait for each other's
                    # indexes.
                    await cursor.execute(self.MIGRATIONS[version].replace(" CONCURRENTLY", ""))
                    await cursor.execute("INSERT INTO checkpoint_migrations (v) VALUES (%s)", (version,))

    async def aclose(self) -> None:
        """Close the connection."""
        if self._open is not None:
            await self._open.close()
            self._open = None

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Write a checkpoint, bound to the epoch of the session's claim if it has one.

        Raises:
            LogConflictError: another process has claimed the session; nothing was written.
            RunError: the database failed.
        """
        with self._within(config):
            return await super().aput(config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store a task's writes, bound to the epoch of the session's claim if it has one.

        Raises:
            LogConflictError: another process has claimed the session; nothing was written.
            RunError: the database failed.
        """
        with self._within(config):
            await super().aput_writes(config, writes, task_id, task_path)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Prune checkpoints as the stock saver does; it is only asked about threads that have older checkpoints.

        For each thread it takes seven statements, also if nothing is to be removed, as after a session's first turn.
        """
        if strategy == "keep_latest" and not isinstance(thread_ids, str):
            async with self._cursor() as cursor:
                await cursor.execute(_WITH_OLDER, ([*map(str, thread_ids)],))
                thread_ids = [row["thread_id"] for row in await cursor.fetchall()]
        await super().aprune(thread_ids, strategy=strategy)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        async with self._cursor() as cursor, cursor.connection.transaction():
            for statement in _DELETE_RUNS:
                await cursor.execute(statement, ([*run_ids],))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        async with self._cursor() as cursor, cursor.connection.transaction():
            for table, columns in _COPIED.items():
                await cursor.execute(
                    f"INSERT INTO {table} (thread_id, {columns})"
                    f" SELECT %s, {columns} FROM {table} WHERE thread_id = %s ON CONFLICT DO NOTHING",
                    (target_thread_id, source_thread_id),
                )

    @contextmanager
    def _within(self, config: RunnableConfig) -> Iterator[None]:
        configurable = config["configurable"]
        epoch = epoch_of(configurable)
        fence = _Fence(configurable["thread_id"], epoch) if self._beside_log and epoch is not None else None
        # Seen by `_cursor` in this task only: another session's write at the same time has its own.
        before = _fence.set(fence)
        try:
            yield
        finally:
            _fence.reset(before)

    @asynccontextmanager
    async def _cursor(self, *, pipeline: bool = False) -> AsyncIterator[AsyncCursor[DictRow]]:
        fence = _fence.get()
        # The stock saver's lock: one connection can serve one task at a time, also across the awaits.
        async with self.lock:
            try:
                connection = await self._connected()
                async with AsyncExitStack() as stack:
                    if pipeline and self.supports_pipeline:
                        await stack.enter_async_context(connection.pipeline())
                    cursor: AsyncCursor[DictRow]
                    if fence is None:
                        cursor = connection.cursor(binary=True, row_factory=dict_row)
                    else:
                        cursor = _InEpoch(connection, row_factory=dict_row)
                        cursor.fence = fence
                    yield await stack.enter_async_context(cursor)
                # No row is inserted if it exists already. Only then a separate query has to check the epoch.
                if fence is not None and cursor.rowcount < 1:
                    asked = await connection.execute(f"SELECT 1 {_IS_EPOCH}".encode(), fence)
                    if await asked.fetchone() is None:
                        raise claim_lost("a checkpoint", fence.session)
                self._heard_at = time.monotonic()
            except Error as error:
                is_lost = self._open is not None and self._open.closed
                raise explained_postgres_error(
                    error, f"{self._name}", self._arguments.get("password"), is_lost=is_lost
                ) from error

    async def _connected(self) -> AsyncConnection[DictRow]:
        # A connection that was left inside an operation is closed, which rolls it back.
        if self._open is not None and not await _is_there(self._open, self._heard_at):
            await self.aclose()
        if self._open is None:
            arguments: dict[str, Any] = self._arguments
            self._open = await AsyncConnection.connect(**arguments, autocommit=True, row_factory=dict_row)
            self._heard_at = time.monotonic()
        return self._open


# By the statement; the stock saver has four that insert.
@cache
def _in_epoch(statement: Query) -> bytes:
    found, count = _VALUES.subn(rf"SELECT \1 {_IS_EPOCH}", str(statement))
    assert count == 1, "LangGraph's statements insert one row of values"
    return found.encode()


async def _version(cursor: AsyncCursor[DictRow]) -> int:
    """The number of the saver's newest migration that has run; -1 if none has."""
    try:
        await cursor.execute("SELECT max(v) AS v FROM checkpoint_migrations")
    except UndefinedTable:
        # Outside a transaction (autocommit), so the error leaves the connection usable.
        return -1
    row = await cursor.fetchone()
    return -1 if row is None or row["v"] is None else int(row["v"])


async def _is_there(connection: AsyncConnection[DictRow], heard_at: float) -> bool:
    """Whether a connection is usable: open, and not left inside an operation by a cancelled run."""
    if connection.closed or connection.info.transaction_status != TransactionStatus.IDLE:
        return False
    if connection_may_be_gone(connection.fileno(), heard_at):
        with suppress(Error):
            await connection.execute("SELECT 1")
            return True
        return False
    return True
