"""A PostgreSQL database full of made-up memories, and what brute force finds among them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from zeus_plugins.embeddings.static.embedder import StaticEmbedder
from zeus_plugins.vector_stores.pgvector.store import PgVectorStore

from benchmarks.memory import Prepared, sentences, words_of
from tests.support.databases import GIVEN, LocalServer, database_on, execute
from zeus_runtime.memory import records
from zeus_runtime.memory.items import MEMORY_TYPES, Embedding, MemoryItem
from zeus_runtime.memory.retrieval.analysis import query_tokens
from zeus_runtime.memory.retrieval.fusion import Corpus, corpus, fusion, lexical_similarity
from zeus_runtime.memory.retrieval.ranking import Ranked, rank
from zeus_runtime.store import schema
from zeus_runtime.store.database import Database
from zeus_runtime.store.word_entries import prepare_words

if TYPE_CHECKING:
    from sqlalchemy import Connection

BEST: Final = 5
_VECTORS: Final = (
    "id",
    "scope",
    "scope_id",
    "model",
    "memory_type",
    "visibility",
    "created_by",
    "dimension",
    "vector",
)


@contextmanager
def server() -> Iterator[str]:
    """The URL of a server on which databases can be made: ``ZEUS_TEST_POSTGRES_URL``'s, or one of the wheel."""
    if GIVEN:
        yield GIVEN
        return
    own = LocalServer(Path(tempfile.mkdtemp(prefix="zeus-bench-")) / "server")
    try:
        yield own.url
    finally:
        own.end()


@contextmanager
def empty(on: str) -> Iterator[str]:
    """The URL of an empty database with the extension, dropped afterwards."""
    with database_on(on) as url:
        execute(url, "CREATE EXTENSION vector")
        yield url


def owner(number: int) -> str:
    """Whose an item is: seven tenths are ann's, two tenths bob's, ten others have a hundredth each."""
    tenth = number % 100
    return "ann" if tenth < 70 else "bob" if tenth < 90 else f"other{tenth - 90}"


@dataclass(frozen=True, eq=False)
class Made:
    """Made-up memories.

    Args:
        vectors: shape (items, dimension), in the items' order.
    """

    items: Sequence[MemoryItem]
    vectors: Any
    embedder: Prepared
    _of: dict[str, Corpora] = field(default_factory=dict)

    def best(self, user: str, query: str, vector: Any) -> list[Ranked]:
        """What ranking everything of ``user``'s by the formula gives."""
        if user not in self._of:
            own = [number for number, item in enumerate(self.items) if item.scope_id == user]
            words = [words_of(self.items[number].content) for number in own]
            self._of[user] = Corpora(own, words, corpus(words))
        own, words, known = self._of[user]
        together = fusion(self.embedder.calibration, self.embedder.coverage(query))
        asked = query_tokens(query)
        cosines = (self.vectors[own] @ vector).tolist()
        scored = (
            (number, together.similarity(cosine, lexical_similarity(asked, text, known)))
            for number, cosine, text in zip(own, cosines, words, strict=True)
        )
        found = ((self.items[number], share) for number, share in scored if together.relevant(share))
        best = rank(found, BEST)
        return best if any(each.similarity >= together.surely for each in best) else []


class Corpora(NamedTuple):
    """The numbers of a user's items, their words, and what BM25 needs to know of them all."""

    own: list[int]
    words: list[Sequence[str]]
    known: Corpus


async def made(count: int) -> Made:
    """So many memories, with their vectors."""
    embedder = Prepared(StaticEmbedder(characters=True))
    texts = sentences(count)
    vectors = await embedder.prepare(texts)
    now = datetime(2026, 1, 1, tzinfo=UTC)
    embedding = Embedding(embedder.model, embedder.dimension)
    items = [
        MemoryItem(
            id=f"mem_{number}",
            content=text,
            memory_type=MEMORY_TYPES[number % len(MEMORY_TYPES)],
            scope="user",
            scope_id=owner(number),
            created_by=owner(number),
            source="user",
            confidence=0.7 + number % 4 / 10,
            embedding=embedding,
            created_at=now,
            updated_at=now,
        )
        for number, text in enumerate(texts)
    ]
    return Made(items, vectors, embedder)


async def fill(url: str, folder: Path, memories: Made) -> None:
    """Write them by ``COPY``, without the gate."""
    database = Database(url, directory=folder)
    await schema.ready(database)
    await database.run(prepare_words)
    await database.run(PgVectorStore().prepare)
    await database.run(lambda connection: _write(connection, memories))
    await database.close()
    execute(url, "VACUUM ANALYZE")


def _write(connection: Connection, memories: Made) -> None:
    places = {
        user: records.changed(connection, records.lock_place(connection, "user", user))
        for user in sorted({item.created_by for item in memories.items})
    }
    rows = [records.values(item, places[item.created_by], "postgresql") for item in memories.items]
    _copy(connection, f"memory_item ({', '.join(rows[0])})", (list(row.values()) for row in rows))
    # The text of 256 numbers takes longer to write and to read than all the rest.
    head = memories.embedder.dimension.to_bytes(2) + bytes(2)
    packed = memories.vectors.astype(">f4")
    _copy(
        connection,
        f"memory_vector_pg ({', '.join(_VECTORS)})",
        (
            [
                item.id,
                item.scope,
                item.scope_id,
                memories.embedder.model,
                item.memory_type,
                item.visibility,
                item.created_by,
                memories.embedder.dimension,
                head + vector.tobytes(),
            ]
            for item, vector in zip(memories.items, packed, strict=True)
        ),
        binary=["text"] * 7 + ["int4", "bytea"],
    )


def _copy(
    connection: Connection, into: str, rows: Iterator[list[Any]], *, binary: Sequence[str] | None = None
) -> None:
    raw: Any = connection.connection.dbapi_connection
    how = " (FORMAT BINARY)" if binary else ""
    with raw.cursor() as cursor, cursor.copy(f"COPY {into} FROM STDIN{how}") as stream:
        if binary:
            stream.set_types(binary)
        for row in rows:
            stream.write_row(row)


@contextmanager
def kept(on: str, name: str, fill_it: Callable[[str], None]) -> Iterator[str]:
    """A copy of the database ``name`` of a server, which is filled if it is not there and stays for the next run."""
    from sqlalchemy import make_url

    url = make_url(on).set(database=name).render_as_string(hide_password=False)
    if not execute(on, f"SELECT 1 FROM pg_database WHERE datname = '{name}'"):
        execute(on, f"CREATE DATABASE {name}")
        execute(url, "CREATE EXTENSION vector")
        fill_it(url)
    copy = f"{name}_{os.getpid()}"
    execute(on, f"CREATE DATABASE {copy} TEMPLATE {name}")
    try:
        yield make_url(on).set(database=copy).render_as_string(hide_password=False)
    finally:
        execute(on, f"DROP DATABASE {copy} WITH (FORCE)")
