"""How the vector store `pgvector` asks: a stand-in for a server with 25,000 vectors in reach that notes statements."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np

from zeus_runtime.memory.items import Caller
from zeus_runtime.memory.permissions import reach
from zeus_runtime.plugin.memory import Embedding
from zeus_runtime.plugin.vector_store import VectorQuery, VectorStore

IN_REACH = 25_000
DIMENSION = 4


class Answer:
    """One row for who wants one, and no more for who goes through them all."""

    def __init__(self, row: tuple[Any, ...]) -> None:
        self._row = row

    def fetchone(self) -> tuple[Any, ...]:
        return self._row

    def fetchall(self) -> list[Any]:
        return []

    def fetchmany(self, _count: int) -> list[Any]:
        return []

    def __iter__(self) -> Iterator[Any]:
        return iter(())


class NotingServer:
    """What ``PgVectorStore`` needs of a connection and of psycopg's own beneath it."""

    dialect = SimpleNamespace(name="postgresql")

    def __init__(self) -> None:
        self.by_graph = False
        self.ef_search: str | None = None
        self.copied = False
        self.connection = SimpleNamespace(dbapi_connection=self)

    def get_transaction(self) -> None:
        return None

    def exec_driver_sql(self, statement: str) -> Any:
        if "extversion" in statement:
            return SimpleNamespace(one=lambda: ("0.8.5", True, True, True, True, True, True))
        return [(f"memory_vector_pg_hnsw_{DIMENSION}", True)] if "indisvalid" in statement else []

    def execute(self, statement: str, values: Any = None, *, binary: bool = False) -> Any:
        if "memory_vector_pg_place" in statement:
            return []
        self.copied = self.copied or "vector_send" in statement
        row: tuple[Any, ...] = (IN_REACH, IN_REACH)
        if "hnsw.ef_search" in statement:
            self.by_graph, self.ef_search, row = True, values["ef_search"], ("on",)
        return Answer(row)

    def cursor(self, name: str) -> NotingServer:
        return self

    def __enter__(self) -> NotingServer:
        return self

    def __exit__(self, *_: object) -> None: ...

    def fetchmany(self, _count: int) -> list[Any]:
        return []


def asked(store: VectorStore) -> tuple[bool, str | None]:
    """Whether the store asks its HNSW index for the nearest, and with which ``ef_search``."""
    server: Any = NotingServer()
    store.prepare(server)
    vector = np.eye(DIMENSION, dtype=np.float32)[0]
    query = VectorQuery(vector, Embedding("m", DIMENSION), reach(Caller("ann"), "read"), "ann")
    assert list(store.nearest(server, query)) == []
    return server.by_graph, server.ef_search


def copied(store: VectorStore) -> bool:
    """Whether the store reads the vectors of a place that is asked a second time."""
    server: Any = NotingServer()
    store.prepare(server)
    query = VectorQuery(
        np.eye(DIMENSION, dtype=np.float32)[0], Embedding("m", DIMENSION), reach(Caller("ann"), "read"), "ann"
    )
    for _ in range(2):
        assert list(store.nearest(server, query)) == []
    return bool(server.copied)
