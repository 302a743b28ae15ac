"""Thousands of memories on PostgreSQL: the answer is brute force's, whoever compares, also while they change."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Connection, insert, text
from zeus_plugins.vector_stores.pgvector.options import Options
from zeus_plugins.vector_stores.pgvector.store import PgVectorStore

from tests.support.databases import execute
from tests.support.least_rights import as_agent
from tests.support.memory import HashingEmbedder, service
from zeus_runtime.memory import records
from zeus_runtime.memory.items import Caller, Embedding, MemoryItem
from zeus_runtime.memory.permissions import may
from zeus_runtime.memory.retrieval.analysis import query_tokens, search_tokens
from zeus_runtime.memory.retrieval.fusion import corpus, fusion, lexical_similarity
from zeus_runtime.memory.retrieval.ranking import rank
from zeus_runtime.memory.service import MemoryService
from zeus_runtime.memory.vectors import Entry
from zeus_runtime.store.memory_tables import ITEM
from zeus_runtime.store.word_entries import Way, entries, prepare_words
from zeus_runtime.testing.store_in_use import some_item

ANN = Caller("ann", "apollo", "editor", "s1")
WORDS = [f"word{number}" for number in range(300)]
MANY = 2_700
"""Four fifths of it are more than the vectors that a copy compares without bounds."""


class Remembering(HashingEmbedder):
    """Each word's direction is made once."""

    def __init__(self) -> None:
        super().__init__(128)
        self._direction = lru_cache(None)(self._direction)  # type: ignore[method-assign]


def made_up(choose: random.Random) -> list[MemoryItem]:
    items = []
    for number in range(MANY):
        bobs = number % 10 == 0
        scope, scope_id = ("user", "bob" if bobs else "ann") if number % 5 else ("project", "apollo")
        items.append(
            replace(
                some_item(f"m{number}", scope_id=scope_id, created_by="bob" if bobs else "ann"),
                scope=scope,
                visibility=choose.choice(("members", "owner_only")),
                confidence=round(choose.random(), 2),
                content=f"{' '.join(choose.choices(WORDS, k=choose.randrange(3, 9)))} number{number}",
            )
        )
    return items


@pytest.fixture(scope="module")
def items() -> list[MemoryItem]:
    return made_up(random.Random(1))


async def filled(url: str, folder: Path, items: Sequence[MemoryItem]) -> None:
    execute(url, "CREATE EXTENSION vector")
    memory, embedder = opened(url, folder), Remembering()
    operations = await memory._shared.operations()
    embedding = Embedding(embedder.model, 128)

    def write(connection: Connection) -> None:
        places = {
            (item.scope, item.scope_id): records.changed(
                connection, records.lock_place(connection, item.scope, item.scope_id)
            )
            for item in sorted(items, key=lambda each: (each.scope, each.scope_id))
        }
        rows = [
            records.values(
                replace(item, embedding=embedding), places[item.scope, item.scope_id], "postgresql"
            )
            for item in items
        ]
        connection.execute(insert(ITEM), rows)
        operations._vectors.put(
            connection, [Entry(item, embedding, embedder.vector(item.content)) for item in items]
        )

    await operations.database.keep_up(write)
    await memory.aclose()


def opened(url: str, folder: Path, options: Options | None = None) -> MemoryService:
    return service(folder, ANN, embedder=Remembering(), url=url, open_vectors=lambda: PgVectorStore(options))


def widest(memory: MemoryService) -> Any:
    """The largest copy of a place that the memory's store has."""
    operations: Any = memory._shared._operations
    return max((copy.place_vectors for copy in operations._vectors._copies._copies.values()), key=len)


def by_brute_force(items: Sequence[MemoryItem], caller: Caller, query: str, k: int) -> list[float]:
    embedder = Remembering()
    readable = [item for item in items if may(caller, "read", item)]
    tokens = [search_tokens(item.content) for item in readable]
    known, asked = corpus(tokens), query_tokens(query)
    together = fusion(embedder.calibration, embedder.coverage(query))
    vector = embedder.vector(query)
    scored = [
        (
            item,
            together.similarity(float(_vector(item.content) @ vector), lexical_similarity(asked, own, known)),
        )
        for item, own in zip(readable, tokens, strict=True)
    ]
    best = rank([each for each in scored if together.relevant(each[1])], k)
    return (
        [each.final_score for each in best]
        if any(each.similarity >= together.surely for each in best)
        else []
    )


@lru_cache(None)
def _vector(content: str) -> Any:
    return _EMBEDDER.vector(content)


_EMBEDDER = Remembering()


async def test_the_answer_is_brute_force_s_whoever_compares_also_while_memories_change(
    postgres_url: str, tmp_path: Path, items: list[MemoryItem]
) -> None:
    await filled(postgres_url, tmp_path, items)
    kept, asked = opened(postgres_url, tmp_path), opened(postgres_url, tmp_path, Options("always", kept_mb=0))
    other = opened(postgres_url, tmp_path)
    choose, now = random.Random(2), {item.id: item for item in items}
    for number in range(24):
        query = " ".join(choose.choices(WORDS, k=choose.randrange(1, 6)))
        caller = choose.choice((ANN, Caller("ann"), Caller("bob", "apollo", "viewer")))
        wanted = by_brute_force(list(now.values()), caller, query, 5)
        for memory in (kept, asked):
            found = await memory.for_caller(caller).search_memories(query)
            assert [each.final_score for each in found] == pytest.approx(wanted, abs=1e-5), (number, query)
        match number % 4:
            case 0:
                saved = await other.add_explicit_memory(f"{query} saved{number}")
                if saved.item is not None:
                    now[saved.item.id] = saved.item
                    now |= {each.id: each for each in await other.list_memories(limit=2)}
                    now = {k: v for k, v in now.items() if v.status == "active"}
            case 1:
                gone = choose.choice([each for each in now.values() if may(ANN, "delete", each)])
                await other.delete_memory(gone.id)
                del now[gone.id]
            case 2:
                old = choose.choice([each for each in now.values() if may(ANN, "edit", each)])
                now[old.id] = await other.update_memory(old.id, content=f"{query} changed{number}")
    assert len(wide := widest(kept)) > 2_048
    assert wide._first is not None
    assert len(wide._first) == len(wide)
    left = {item.id for item in await other.list_memories()}
    assert left == {item.id for item in now.values() if may(ANN, "read", item)}
    for memory in (kept, asked, other):
        await memory.aclose()


def test_behind_the_wall_words_are_found_by_their_index(
    postgres_url: str, tmp_path: Path, items: list[MemoryItem]
) -> None:
    asyncio.run(filled(postgres_url, tmp_path, items))
    scans = "SELECT pg_stat_get_xact_numscans('memory_item_words'::regclass)"
    with as_agent(postgres_url) as url:
        from tests.plugins_bundled.vector_stores.test_pgvector import engine_of

        engine = engine_of(url)
        with engine.connect() as connection, connection.begin():
            assert prepare_words(connection) == "behind the wall"
            place = connection.execute(
                text("SELECT key FROM memory_place WHERE scope = 'project'")
            ).scalar_one()
            term = f"{place}_word7"

            def found(way: Way) -> tuple[list[int], int]:
                before = connection.execute(text(scans)).scalar_one()
                keys, _ = entries(connection, place, [term], way).get(term, (b"", b""))
                return sorted(np.frombuffer(keys, ">i8").tolist()), connection.execute(
                    text(scans)
                ).scalar_one() - before

            owner = engine_of(postgres_url)
            with owner.connect() as own, own.begin():
                assert prepare_words(own) == "by the index"
                everybodys, _ = entries(own, place, [term], "by the index")[term]
            owner.dispose()
            records_of = {}
            for user, role in (("ann", "editor"), ("bob", "viewer"), ("eve", "")):
                connection.execute(
                    text(
                        "SELECT set_config('zeus.user_id', :user, true), set_config('zeus.role', :role, true),"
                        " set_config('zeus.project_id', 'apollo', true)"
                    ),
                    {"user": user, "role": role},
                )
                slowly, asked_slowly = found("of the place")
                quickly, asked_quickly = found("behind the wall")
                assert slowly == quickly
                assert (asked_slowly, asked_quickly) == (0, 1)
                records_of[user] = quickly
            assert records_of["eve"] == []
            assert 0 < len(records_of["bob"]) < len(everybodys) // 8
            assert 0 < len(records_of["ann"]) < len(everybodys) // 8
        engine.dispose()
