"""A knowledge base from before revision 0010, a row a chunk, is the same one after it."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Connection, MetaData, Table, select
from zeus_plugins.embeddings.static.embedder import StaticEmbedder

from tests.support.databases import execute
from tests.support.knowledge import Counting, knowledge, write
from tests.support.least_rights import as_owner
from zeus_runtime.knowledge.convert import VERSION
from zeus_runtime.knowledge.ingest import BATCH
from zeus_runtime.knowledge.parts import CHUNKS, unpacked_chunks
from zeus_runtime.memory.retrieval.analysis import ANALYSIS
from zeus_runtime.store import schema
from zeus_runtime.store.database import Database
from zeus_runtime.store.knowledge_tables import BASE, DOCUMENT, PART, SOURCE

QUERIES = ("What part 17 of 1 says", "船 dawn", "ships", "nothing like it")


def documents(folder: Path) -> Path:
    for number in range(3):
        parts = (
            f"# Part {number}.{part}\n\nWhat part {part} of {number} says, says." for part in range(CHUNKS)
        )
        write(folder, f"{number}.md", "\n\n".join((*parts, "# Dawn\n\n船は夜明けに出る — ships")))
    write(folder, "empty.md", "")
    return folder


def copies(folder: Path) -> list[Path]:
    return list(folder.rglob("*.before-*"))


def upgrade_to_9(connection: Connection) -> None:
    from alembic.operations import Operations
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory

    steps = [*ScriptDirectory(str(schema.MIGRATIONS)).iterate_revisions("0009", "base")][::-1]
    with Operations.context(MigrationContext.configure(connection)):
        for step in steps:
            step.module.upgrade()
    connection.exec_driver_sql("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
    connection.exec_driver_sql("INSERT INTO alembic_version VALUES ('0009')")


Rows = dict[str, list[dict[str, Any]]]


def read(connection: Connection) -> Rows:
    return {
        table.name: [dict(row._mapping) for row in connection.execute(select(table).order_by(table.c.key))]
        for table in (BASE, SOURCE, DOCUMENT, PART)
    }


async def vectors_of(rows: Rows) -> dict[str, bytes]:
    """The embedded text of each chunk to its vector, which is in the vector store by now."""
    parts = rows["knowledge_part"]
    texts = [each.embedded for row in parts for each in unpacked_chunks(row["places"], row["texts"])]
    vectors = await StaticEmbedder().embed(texts, purpose="memory")
    return {text: vector.tobytes() for text, vector in zip(texts, vectors, strict=True)}


def write_as_before(connection: Connection, rows: Rows, vectors: dict[str, bytes]) -> None:
    """The rows as they were before 0010: a chunk's words once each, ascending, then how often."""
    for table in (BASE, SOURCE, DOCUMENT):
        former = [
            {name: value for name, value in row.items() if name != "collection"} for row in rows[table.name]
        ]
        there = Table(table.name, MetaData(), autoload_with=connection)
        connection.execute(there.insert(), former)
        if connection.dialect.name == "postgresql":
            connection.exec_driver_sql(f"SELECT setval(pg_get_serial_sequence('{table.name}', 'key'), 1000)")
    chunk = Table("knowledge_chunk", MetaData(), autoload_with=connection)
    for row in rows["knowledge_part"]:
        lengths = np.frombuffer(row["lengths"], "<u4").tolist()
        words = np.split(np.frombuffer(row["words"], "<u4"), np.cumsum(lengths)[:-1])
        chunks = unpacked_chunks(row["places"], row["texts"])
        for place, each in enumerate(chunks):
            counts = sorted(Counter(words[place].tolist()).items())
            values = {
                "document": row["document"],
                "number": row["number"] + place,
                "words": lengths[place],
                "heading": each.heading,
                "position": each.position,
                "content": each.content,
                "vector": vectors[each.embedded],
                "terms": np.array([word for word, _ in counts], "<u4").tobytes()
                + np.array([count for _, count in counts], "<u2").tobytes(),
            }
            connection.execute(chunk.insert(), values)


async def test_an_upgraded_base_finds_what_it_found_and_needs_no_vector_again(
    database_url: str, tmp_path: Path
) -> None:
    docs = documents(tmp_path / "docs")
    long = write(tmp_path, "long.md", "\n\n".join(f"# {n}\n\nLong part {n} says." for n in range(3 * BATCH)))
    new = tmp_path / "new"
    async with knowledge("sqlite:///kb.db", new) as service:
        await service.add("handbook", [docs])
        found = [(await service.search(query, names=["handbook"])).hits for query in QUERIES]
    async with knowledge("sqlite:///kb.db", new, embedder=Counting(fails_after=2 * BATCH + 9)) as service:
        with suppress(KeyboardInterrupt):
            await service.add("handbook", [long])
    made = Database("sqlite:///kb.db", directory=new)
    rows = await made.run(read)
    vectors = await vectors_of(rows)
    await made.close()
    assert [row["ready"] for row in rows["knowledge_document"]] == [True] * 4 + [False]

    database = Database(database_url, directory=tmp_path)
    try:
        await database.run(upgrade_to_9)
        await database.run(lambda connection: write_as_before(connection, rows, vectors))
        assert await schema.upgrade(database) == "0009"
        upgraded = await database.run(read)
    finally:
        await database.close()
    assert [row["chunks"] for row in upgraded["knowledge_part"]] == [
        row["chunks"] for row in rows["knowledge_part"]
    ]
    assert [json.loads(row["places"]) for row in upgraded["knowledge_part"]] == [
        json.loads(row["places"]) for row in rows["knowledge_part"]
    ]
    async with knowledge(database_url, tmp_path, embedder=(model := Counting())) as service:
        assert [(await service.search(query, names=["handbook"])).hits for query in QUERIES] == found
        model.texts.clear()
        done = await service.add("handbook", [])
        assert (done.unchanged, done.added, done.embedded) == (4, 1, BATCH)
        assert await service.remove("handbook") == 5
        assert await service.bases() == []
    assert (database_url.startswith("sqlite")) == bool(copies(tmp_path))


@pytest.mark.parametrize("version", ["1", f"{VERSION}.{ANALYSIS - 1}"])
async def test_vectors_in_rows_move_to_the_store_when_their_files_are_read_again_and_none_is_computed(
    version: str, database_url: str, tmp_path: Path
) -> None:
    docs = documents(tmp_path / "docs")
    async with knowledge("sqlite:///kb.db", tmp_path / "new") as service:
        await service.add("handbook", [docs])
    made = Database("sqlite:///kb.db", directory=tmp_path / "new")
    rows = await made.run(read)
    vectors = await vectors_of(rows)
    await made.close()
    for row in rows["knowledge_document"]:
        row["made_with"] = f"{version}|" + row["made_with"].partition("|")[2]
    database = Database(database_url, directory=tmp_path)
    try:
        await database.run(upgrade_to_9)
        await database.run(lambda connection: write_as_before(connection, rows, vectors))
        await schema.upgrade(database)
    finally:
        await database.close()
    async with knowledge(database_url, tmp_path, embedder=(model := Counting())) as service:
        (chunks,) = [base.chunks for base in await service.bases()]
        (notice,) = (await service.search("ships", names=["handbook"], for_tool=False)).notices
        assert notice.startswith("an older version of Zeus read 4 of the documents of 'handbook'")
        model.texts.clear()
        done = await service.add("handbook", [])
        assert (done.changed, done.embedded, done.repaired, model.texts) == (4, 0, 0, [])
        assert (await service.search("ships", names=["handbook"])).notices == ()
        base = await service.base("handbook")
        assert base is not None
        store, opened = await service._store(), await service._open()
        assert await opened.run(store.collection(base.collection, base.dimension).size) == chunks
    database = Database(database_url, directory=tmp_path)
    assert all(row["digests"] and not row["vectors"] for row in (await database.run(read))["knowledge_part"])
    await database.close()


async def test_an_owner_behind_the_wall_loses_neither_a_chunk_nor_the_wall(
    postgres_url: str, tmp_path: Path
) -> None:
    write(tmp_path / "docs", "a.md", "# Ports\n\nPylos lies three days from Ithaca.")
    async with knowledge("sqlite:///kb.db", tmp_path) as service:
        await service.add("handbook", [tmp_path / "docs"])
    made = Database("sqlite:///kb.db", directory=tmp_path)
    rows = await made.run(read)
    vectors = await vectors_of(rows)
    await made.close()
    with as_owner(postgres_url) as url:
        database = Database(url, directory=tmp_path)
        try:
            await database.run(upgrade_to_9)
            await database.run(lambda connection: write_as_before(connection, rows, vectors))
        finally:
            await database.close()
        tables = ("knowledge_base", "knowledge_source", "knowledge_document", "knowledge_chunk")
        execute(url, *(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY" for table in tables))
        database = Database(url, directory=tmp_path)
        try:
            assert await schema.upgrade(database) == "0009"
        finally:
            await database.close()
        assert execute(url, "SELECT count(*) FROM knowledge_part") == [(0,)], "who says nothing sees nothing"
        async with knowledge(url, tmp_path) as service:
            (hit,) = (await service.search("Pylos", names=["handbook"])).hits
    assert hit.content == "Pylos lies three days from Ithaca."


async def test_a_database_without_chunks_is_not_copied_first(tmp_path: Path) -> None:
    database = Database("sqlite:///zeus.db", directory=tmp_path)
    try:
        await database.run(upgrade_to_9)
        assert await schema.upgrade(database) == "0009"
    finally:
        await database.close()
    assert not copies(tmp_path)
