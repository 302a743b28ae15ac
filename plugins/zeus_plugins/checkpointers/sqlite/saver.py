"""A LangGraph saver on SQLite that writes on the event loop's thread and can prune; the stock saver does neither."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
    writes_sort_key,
)
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from zeus_plugins.checkpointers.sqlite.options import Options
from zeus_runtime.plugin import MissingError, PlanContext, ZeusError
from zeus_runtime.plugin.checkpointer import (
    Transactions,
    claim_lost,
    epoch_of,
    explained_sqlite_error,
    make_private,
    retry_while_locked,
    shorten_log,
    writer_beside,
)

T = TypeVar("T")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS checkpoint (
  thread_id TEXT NOT NULL, ns TEXT NOT NULL, id TEXT NOT NULL, parent_id TEXT, run_id TEXT,
  type TEXT NOT NULL, value BLOB NOT NULL, metadata TEXT NOT NULL,
  PRIMARY KEY (thread_id, ns, id)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS checkpoint_write (
  thread_id TEXT NOT NULL, ns TEXT NOT NULL, checkpoint_id TEXT NOT NULL, task_id TEXT NOT NULL, idx INTEGER NOT NULL,
  task_path TEXT NOT NULL, channel TEXT NOT NULL, type TEXT NOT NULL, value BLOB NOT NULL,
  PRIMARY KEY (thread_id, ns, checkpoint_id, task_id, idx)
) WITHOUT ROWID;
"""
_COLUMNS = "thread_id, ns, id, parent_id, type, value, metadata"
_PUT = (
    "INSERT OR REPLACE INTO checkpoint (thread_id, ns, id, parent_id, run_id, type, value, metadata)"
    " SELECT ?, ?, ?, ?, ?, ?, ?, ?"
)
_WRITES = (
    "INTO checkpoint_write (thread_id, ns, checkpoint_id, task_id, idx, task_path, channel, type, value)"
    " SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?"
)
_PUT_SPECIAL = f"INSERT OR REPLACE {_WRITES}"
_PUT_WRITES = f"INSERT OR IGNORE {_WRITES}"
_IS_EPOCH = "SELECT 1 FROM thread WHERE session = ? AND epoch = ?"
_IN_EPOCH = f" WHERE EXISTS ({_IS_EPOCH})"


class SqliteSaver(BaseCheckpointSaver[int]):
    """Checkpoints in one SQLite file.

    Args:
        file: the database; it and its folder are created if missing. ``:memory:`` keeps it in memory.
        serde: converts values to bytes; by default LangGraph's msgpack, which creates only objects of a harmless list.
        beside_log: whether the thread log is in the same file; writes are then bound to the session's claim.
    """

    def __init__(
        self, file: Path | str, *, serde: SerializerProtocol | None = None, beside_log: bool = False
    ) -> None:
        # Set here, because LANGGRAPH_STRICT_MSGPACK has no effect when LangGraph is already imported.
        super().__init__(serde=serde or JsonPlusSerializer(allowed_msgpack_modules=None))
        self._file = file
        self._beside_log = beside_log
        self._transactions = Transactions(
            lambda timeout_seconds: _connect(file, timeout_seconds),
            _transact,
            sqlite3.Connection.close,
            inline=True,
            shared=file == ":memory:",
            # Beside the thread log, that log's own transactions see to it.
            log=file.with_name(f"{file.name}-wal") if isinstance(file, Path) and not beside_log else None,
            shorten=shorten_log,
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transactions.close()

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        thread_id, ns = _place(config)
        checkpoint_id = get_checkpoint_id(config)

        def work(connection: sqlite3.Connection) -> CheckpointTuple | None:
            which, values = (" AND id = ?", (checkpoint_id,)) if checkpoint_id else ("", ())
            row = connection.execute(
                # LangGraph makes UUIDs of version 6, whose text begins with the time: the highest is the newest.
                f"SELECT {_COLUMNS} FROM checkpoint WHERE thread_id = ? AND ns = ?{which} ORDER BY id DESC LIMIT 1",
                (thread_id, ns, *values),
            ).fetchone()
            return self._tuple(connection, row) if row else None

        return await self._run(work)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        def work(connection: sqlite3.Connection) -> list[CheckpointTuple]:
            found: list[CheckpointTuple] = []
            for row in _select(connection, config, before):
                # Counted after the filter, which SQL does not know; the rows come one by one, so the rest is never
                # read.
                if limit is not None and len(found) >= limit:
                    break
                metadata = json.loads(row[6])
                if all(key in metadata and metadata[key] == value for key, value in (filter or {}).items()):
                    found.append(self._tuple(connection, row))
            return found

        for found in await self._run(work):
            yield found

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        thread_id, ns = _place(config)
        kind, value = self.serde.dumps_typed(checkpoint)
        full = get_checkpoint_metadata(config, metadata)
        row = (
            thread_id,
            ns,
            checkpoint["id"],
            get_checkpoint_id(config),
            full.get("run_id"),
            kind,
            value,
            json.dumps(full, ensure_ascii=False),
        )
        await self._write(config, _PUT, [row])
        return {
            "configurable": {"thread_id": thread_id, "checkpoint_ns": ns, "checkpoint_id": checkpoint["id"]}
        }

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        thread_id, ns = _place(config)
        # Special writes, such as an error or an interrupt, have a fixed negative index and replace a former one. Other
        # writes of a task are written once: the same task may store them again after a resume.
        special = all(channel in WRITES_IDX_MAP for channel, _ in writes)
        rows = [
            (
                thread_id,
                ns,
                config["configurable"]["checkpoint_id"],
                task_id,
                WRITES_IDX_MAP.get(channel, index),
                task_path,
                channel,
                *self.serde.dumps_typed(value),
            )
            for index, (channel, value) in enumerate(writes)
        ]
        await self._write(config, _PUT_SPECIAL if special else _PUT_WRITES, rows)

    async def adelete_thread(self, thread_id: str) -> None:
        await self._run(lambda connection: _delete(connection, "thread_id = ?", (str(thread_id),)))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        def work(connection: sqlite3.Connection) -> None:
            for run_id in run_ids:
                _delete(connection, "run_id = ?", (run_id,))

        await self._run(work)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        def work(connection: sqlite3.Connection) -> None:
            for table, columns in (
                ("checkpoint", "ns, id, parent_id, run_id, type, value, metadata"),
                ("checkpoint_write", "ns, checkpoint_id, task_id, idx, task_path, channel, type, value"),
            ):
                connection.execute(
                    f"INSERT OR REPLACE INTO {table} (thread_id, {columns})"
                    f" SELECT ?, {columns} FROM {table} WHERE thread_id = ?",
                    (target_thread_id, source_thread_id),
                )

        await self._run(work)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Drop all but the newest checkpoint of each namespace (``keep_latest``) or all (``delete``)."""
        if strategy not in ("keep_latest", "delete"):
            raise ValueError(f"unknown strategy {strategy!r}; use 'keep_latest' or 'delete'")

        def work(connection: sqlite3.Connection) -> None:
            for thread_id in map(str, thread_ids):
                if strategy == "delete":
                    _delete(connection, "thread_id = ?", (thread_id,))
                    continue
                newest = connection.execute(
                    "SELECT ns, MAX(id) FROM checkpoint WHERE thread_id = ? GROUP BY ns", (thread_id,)
                ).fetchall()
                for ns, checkpoint_id in newest:
                    where = (thread_id, ns, checkpoint_id)
                    connection.execute(
                        "DELETE FROM checkpoint WHERE thread_id = ? AND ns = ? AND id < ?", where
                    )
                    connection.execute(
                        "DELETE FROM checkpoint_write WHERE thread_id = ? AND ns = ? AND checkpoint_id < ?",
                        where,
                    )

        await self._run(work)

    async def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            return await self._transactions.run(work)
        except (sqlite3.Error, OSError) as error:
            raise self._explained(error) from error

    async def _write(self, config: RunnableConfig, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Write rows, bound to the epoch of the session's claim if it has one.

        Raises:
            LogConflictError: another process has claimed the session; nothing was written.
            MissingError: the database cannot be used.
            RunError: the database failed.
        """
        session, epoch = config["configurable"]["thread_id"], epoch_of(config["configurable"])
        fence = (session, epoch)
        fenced = self._beside_log and epoch is not None

        def held(connection: sqlite3.Connection) -> None:
            if not fenced:
                connection.executemany(statement, rows)
                return
            # The epoch is a condition of each INSERT, so it is checked in the transaction that writes.
            written = connection.executemany(statement + _IN_EPOCH, [(*row, *fence) for row in rows]).rowcount
            # No row is inserted if it exists already. Only then a separate query has to check the epoch.
            if rows and not written and connection.execute(_IS_EPOCH, fence).fetchone() is None:
                raise claim_lost("a checkpoint", session)

        writer = None
        # The tables are made when the own connection opens.
        if self._beside_log and isinstance(self._file, Path) and self._transactions.is_open:
            writer = writer_beside(self._file)
        try:
            # `held` may run twice; both statements leave the same rows then.
            await (self._transactions.write(held) if writer is None else writer.commit(held))
        except (sqlite3.Error, OSError) as error:
            raise self._explained(error) from error

    def _explained(self, error: Exception) -> ZeusError:
        file = self._file if isinstance(self._file, Path) else None
        what = f"the checkpoints' database {self._file}"
        return explained_sqlite_error(error, what, file, key="the checkpointer's path")

    def _tuple(self, connection: sqlite3.Connection, row: tuple[Any, ...]) -> CheckpointTuple:
        thread_id, ns, checkpoint_id, parent_id, kind, value, metadata = row
        writes = connection.execute(
            "SELECT task_id, channel, type, value, task_path, idx FROM checkpoint_write"
            " WHERE thread_id = ? AND ns = ? AND checkpoint_id = ?",
            (thread_id, ns, checkpoint_id),
        ).fetchall()
        writes.sort(key=lambda write: writes_sort_key(write[4], write[0], write[5]))

        def place(which: str) -> RunnableConfig:
            return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ns, "checkpoint_id": which}}

        return CheckpointTuple(
            place(checkpoint_id),
            self.serde.loads_typed((kind, value)),
            json.loads(metadata),
            place(parent_id) if parent_id else None,
            [
                (task, channel, self.serde.loads_typed((type_, blob)))
                for task, channel, type_, blob, _, _ in writes
            ],
        )


@asynccontextmanager
async def create(options: Options, context: PlanContext) -> AsyncIterator[SqliteSaver]:
    """Yield the saver for the file in the options, or for the threads' database."""
    from zeus_runtime.plugin.checkpointer import sqlite_file

    found = sqlite_file(context.config.storage.url, context.directory)
    if options.path is not None:
        file: Path | str = (context.directory / options.path).resolve()
    else:
        if found is None and not context.config.storage.url.startswith("sqlite"):
            raise MissingError(
                "the sqlite checkpointer shares the threads' SQLite database, but storage.url names another database",
                remedy="Give the checkpointer a file (checkpointer: {sqlite: {path: .zeus/checkpoints.db}}), or choose"
                " the checkpointer of that database.",
            )
        # The threads' database is in memory too, but is another one: two connections cannot share it.
        file = found or ":memory:"
    # Also if the options name the threads' own file: then the table `thread` with the epochs is beside the checkpoints.
    saver = SqliteSaver(file, beside_log=file == found)
    try:
        yield saver
    finally:
        await saver.aclose()


def _connect(file: Path | str, timeout_seconds: float) -> sqlite3.Connection:
    if isinstance(file, Path):
        make_private(file)
    connection = sqlite3.connect(file, timeout=timeout_seconds, check_same_thread=False)

    def prepare() -> None:
        if not connection.execute("PRAGMA page_count").fetchone()[0]:
            # Only for a new database: the statement takes the write lock, and changes nothing in an existing one.
            connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        # To move the log waits for the disk, so only the worker thread does it (`shorten_log`).
        connection.execute("PRAGMA wal_autocheckpoint=0")
        connection.executescript(_SCHEMA)

    try:
        if timeout_seconds:
            retry_while_locked(prepare)
        else:
            # The event loop's connection never waits: if the database is locked, a worker thread does the work.
            prepare()
    except BaseException:
        connection.close()
        raise
    return connection


def _transact(connection: sqlite3.Connection, work: Callable[[sqlite3.Connection], T]) -> T:
    # Python's driver begins the transaction with the first write; this commits it, or rolls it back.
    with connection:
        return work(connection)


def _place(config: RunnableConfig) -> tuple[str, str]:
    configurable = config["configurable"]
    return str(configurable["thread_id"]), str(configurable.get("checkpoint_ns", ""))


def _select(
    connection: sqlite3.Connection, config: RunnableConfig | None, before: RunnableConfig | None
) -> Iterator[tuple[Any, ...]]:
    clauses: list[str] = []
    values: list[Any] = []
    for column, key in (("thread_id", "thread_id"), ("ns", "checkpoint_ns"), ("id", "checkpoint_id")):
        value = (config or {}).get("configurable", {}).get(key)
        if value is not None:
            clauses.append(f"{column} = ?")
            values.append(str(value))
    if before is not None and (limit_id := get_checkpoint_id(before)):
        clauses.append("id < ?")
        values.append(limit_id)
    where = f" WHERE {' AND '.join(clauses)}" if clauses else ""
    yield from connection.execute(f"SELECT {_COLUMNS} FROM checkpoint{where} ORDER BY id DESC", values)


def _delete(connection: sqlite3.Connection, where: str, values: tuple[Any, ...]) -> None:
    connection.execute(
        "DELETE FROM checkpoint_write WHERE (thread_id, ns, checkpoint_id) IN"
        f" (SELECT thread_id, ns, id FROM checkpoint WHERE {where})",
        values,
    )
    connection.execute(f"DELETE FROM checkpoint WHERE {where}", values)
