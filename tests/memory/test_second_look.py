"""When a memory's vector comes after its row, the gate decides about it again: whoever embeds it, and once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.databases import execute
from tests.support.extracting import vectors_of
from tests.support.memory import Clock, HashingEmbedder, OutsideStore, service
from zeus_runtime.memory.admission.decisions import Duplicate
from zeus_runtime.memory.items import Caller


@pytest.fixture
def vectors_url(database_url: str) -> str:
    """Of a database that can hold vectors."""
    if database_url.startswith("postgres"):
        execute(database_url, "CREATE EXTENSION vector")
    return database_url


@pytest.mark.parametrize("outside", [False, True])
async def test_what_came_without_a_vector_is_decided_about_again_when_it_has_one(
    tmp_path: Path, vectors_url: str, outside: bool
) -> None:
    embedder, store = HashingEmbedder(quick=False), OutsideStore()
    opened = (lambda: store) if outside else vectors_of(vectors_url)
    memory = service(tmp_path, embedder=embedder, url=vectors_url, open_vectors=opened)
    first = (await memory.add_explicit_memory("The user plays the grand piano at home")).item
    await memory.aclose()
    same = await memory.check_duplicate("The user plays the piano at home")
    assert isinstance(same, Duplicate)
    embedder.failing = True
    again = (await memory.add_explicit_memory("The user plays the piano at home")).item
    edited = (await memory.add_explicit_memory("The user plays the grand piano, at home always")).item
    edited = await memory.update_memory(edited.id, confidence=0.9)
    assert [each.status for each in (again, edited)] == ["active", "active"]
    await memory.aclose()
    embedder.failing = False
    await memory.embeddings.backfill()
    kept = {item.id: item for item in await memory.list_memories(status=None)}
    assert kept[first.id].status == "active"
    assert (kept[again.id].status, kept[again.id].superseded_by) == ("superseded", first.id)
    assert kept[edited.id].status == "active", "a person edited it since"
    assert [each.action for each in await memory.memory_history(again.id)][-1] == "superseded"
    await memory.check()
    await memory.aclose()


async def test_what_waited_for_another_process_is_decided_about_when_a_store_of_its_own_is_opened(
    tmp_path: Path,
) -> None:
    embedder, store = HashingEmbedder(quick=False), OutsideStore()
    memory = service(tmp_path, embedder=embedder, open_vectors=lambda: store)
    first = (await memory.add_explicit_memory("The user plays the grand piano at home")).item
    await memory.aclose()
    embedder.failing = True
    again = (await memory.add_explicit_memory("The user plays the piano at home")).item
    await memory.aclose()
    embedder.failing = False
    await memory.stats()
    await memory.aclose()
    kept = {item.id: item for item in await memory.list_memories(status=None)}
    assert (kept[again.id].status, kept[again.id].superseded_by) == ("superseded", first.id)
    assert set(store.kept) == {first.id}
    await memory.aclose()


async def test_what_an_editor_wrote_replaces_nobody_elses_memory_whoever_embeds_it(
    tmp_path: Path, vectors_url: str
) -> None:
    embedder = HashingEmbedder(quick=False)
    owner = service(
        tmp_path,
        Caller("olga", "shop", "owner"),
        embedder=embedder,
        url=vectors_url,
        open_vectors=vectors_of(vectors_url),
    )
    editor = owner.for_caller(Caller("ed", "shop", "editor"))
    viewer = owner.for_caller(Caller("vic", "shop", "viewer"))
    embedder.failing = True
    asked = [
        (owner, "The rate limit of the shop is 3 requests"),
        (editor, "The rate limit of the shop is 5 requests"),
        (editor, "The shop sells grand pianos in Vienna"),
        (editor, "The shop sells pianos in Vienna"),
    ]
    limit, other, first, again = [
        (await each.add_explicit_memory(text, scope="project")).item for each, text in asked
    ]
    await owner.aclose()
    embedder.failing = False
    await owner.embeddings.backfill()
    kept = {item.id: item for item in await owner.list_memories(status=None)}
    assert [kept[each.id].status for each in (limit, other, first)] == ["active"] * 3
    assert kept[again.id].superseded_by == first.id, "both are the editor's"
    assert [each.by for each in await owner.memory_history(again.id)][-1] == "ed"

    embedder.failing = True
    late = (await editor.add_explicit_memory("The shop sells pianos, in Vienna", scope="project")).item
    await owner.aclose()
    embedder.failing = False
    await viewer.embeddings.backfill()
    kept = {item.id: item for item in await owner.list_memories(status=None)}
    assert kept[late.id].status == "active", "a viewer changes nothing"
    await owner.aclose()


async def test_two_that_embed_the_same_memories_keep_one_of_each_pair(
    tmp_path: Path, vectors_url: str
) -> None:
    embedder = HashingEmbedder(quick=False)
    first, second = (
        service(
            tmp_path,
            embedder=embedder,
            url=vectors_url,
            open_vectors=vectors_of(vectors_url),
            clock=Clock(),
        )  # all are saved at one moment
        for _ in range(2)
    )
    embedder.failing = True
    rooms = ["kitchen", "cellar", "attic", "garage", "library", "pantry", "hall", "garden"]
    for room in rooms:
        await first.add_explicit_memory(f"The {room} holds the grand piano in winter")
        await first.add_explicit_memory(f"The {room} holds the piano in winter")
    await first.aclose()
    embedder.failing = False
    await asyncio.gather(first.embeddings.backfill(), second.embeddings.backfill())
    items = await second.list_memories(status=None, limit=50)
    assert len(items) == 2 * len(rooms)
    for room in rooms:
        kept, gone = sorted((item for item in items if room in item.content), key=lambda item: item.status)
        assert (kept.status, gone.status, gone.superseded_by) == ("active", "superseded", kept.id)
        actions = [each.action for each in await second.memory_history(gone.id)]
        assert actions.count("superseded") == 1, "by one of them"
    await second.check()
    await first.aclose()
    await second.aclose()
