"""Who may do what with which memory, asked of the service on real databases: every role, visibility and operation."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pytest
from zeus_plugins.vector_stores.pgvector.store import PgVectorStore
from zeus_plugins.vector_stores.sqlite.store import SqliteVectorStore

from tests.support.databases import execute
from tests.support.least_rights import as_agent
from tests.support.memory import service
from zeus_runtime.memory.items import ROLES, VISIBILITIES, Caller, MemorySettings, Role, Visibility
from zeus_runtime.memory.outcomes import UnknownMemoryError
from zeus_runtime.memory.permissions import OPERATIONS, Operation
from zeus_runtime.memory.service import MemoryService

SETTINGS = MemorySettings(duplicate_threshold=1, related_threshold=1, related_words=1)
EVERY = "public members owner_only"
SHARED = "public members"
PROJECT: dict[tuple[Role | None, Operation], tuple[str, str]] = {
    # of one's own, of another member's
    ("owner", "see"): (EVERY, EVERY),
    ("owner", "read"): (EVERY, SHARED),
    ("owner", "create"): (EVERY, ""),
    ("owner", "edit"): (EVERY, SHARED),
    ("owner", "delete"): (EVERY, EVERY),
    ("editor", "see"): (EVERY, SHARED),
    ("editor", "read"): (EVERY, SHARED),
    ("editor", "create"): (EVERY, ""),
    ("editor", "edit"): (EVERY, ""),
    ("editor", "delete"): (EVERY, ""),
    ("viewer", "see"): (EVERY, SHARED),
    ("viewer", "read"): (EVERY, SHARED),
    ("viewer", "create"): ("", ""),
    ("viewer", "edit"): ("", ""),
    ("viewer", "delete"): ("", ""),
}
PROJECT |= {("admin", each): PROJECT["owner", each] for each in OPERATIONS}
PROJECT |= {(None, each): ("", "") for each in OPERATIONS}
"""SPEC section 8, written out."""

MEMBERS: tuple[Role | None, ...] = (*ROLES, None)


@dataclass
class Place:
    """A memory on one database, for whoever asks."""

    memory: MemoryService
    words: Iterator[int]

    def for_(self, user: str, project: str | None = None, role: Role | None = None) -> MemoryService:
        return self.memory.for_caller(Caller(user, project, role, f"session of {user}"))

    async def saved(
        self, memory: MemoryService, visibility: Visibility = "members", scope: str = "project"
    ) -> str | None:
        word = f"word{next(self.words)}"
        saved = await memory.add_explicit_memory(
            f"{word} is what {word} says", scope=scope, visibility=visibility
        )
        return None if saved.item is None else saved.item.id


@pytest.fixture(params=["sqlite", "postgres", "postgres as the agents' role"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "sqlite":
        yield Place(service(tmp_path, settings=SETTINGS, open_vectors=SqliteVectorStore), itertools.count())
        return
    url = request.getfixturevalue("postgres_url")
    execute(url, "CREATE EXTENSION vector")
    if request.param == "postgres":
        yield Place(
            service(tmp_path, settings=SETTINGS, url=url, open_vectors=PgVectorStore), itertools.count()
        )
        return

    async def make_tables() -> None:
        memory = service(tmp_path, url=url, open_vectors=PgVectorStore)
        await memory.stats()
        await memory.aclose()

    asyncio.run(make_tables())
    with as_agent(url) as restricted:
        memory = service(tmp_path, settings=SETTINGS, url=restricted, open_vectors=PgVectorStore)
        yield Place(memory, itertools.count())


async def may_read(memory: MemoryService, memory_id: str, word: str) -> bool:
    """As every way to read says alike."""
    try:
        item = await memory.get(memory_id)
        word = item.content.split()[0]
        got = True
    except UnknownMemoryError:
        got = False
    listed = memory_id in {item.id for item in await memory.list_memories(status=None)}
    found = memory_id in {each.item.id for each in await memory.search_memories(word, k=100)}
    near = memory_id in {each.item.id for each in await memory.search_memories(word, k=1_000, mode="vector")}
    exported = memory_id in {entry["id"] async for entry in memory.export_memories()}
    assert {listed, found, near, exported} == {got}, (listed, found, near, exported, got)
    return got


async def may_see(memory: MemoryService, memory_id: str, author: str) -> bool:
    """Whether it is told that there is this memory, be it with what it says or without."""
    hidden = {each.id: each.created_by for each in await memory.hidden_memories(status=None)}
    read = {item.id for item in await memory.list_memories(status=None)}
    assert not read & hidden.keys()
    assert hidden.get(memory_id, author) == author
    return memory_id in hidden.keys() | read


async def may_edit(memory: MemoryService, memory_id: str) -> bool:
    try:
        await memory.update_memory(memory_id, confidence=0.9)
    except UnknownMemoryError:
        return False
    return True


async def may_delete(memory: MemoryService, memory_id: str) -> bool:
    try:
        await memory.delete_memory(memory_id)
    except UnknownMemoryError:
        return False
    return True


async def test_a_project_s_memories_by_role_visibility_and_owner(place: Place) -> None:
    makers = {True: place.for_("ann", "apollo", "editor"), False: place.for_("bob", "apollo", "editor")}
    wrong = []
    for role, visibility, own in product(MEMBERS, VISIBILITIES, (True, False)):
        ann = place.for_("ann", "apollo", role)
        memory_id = await place.saved(makers[own], visibility)
        assert memory_id is not None
        word = (await makers[own].get(memory_id)).content.split()[0]
        answers: dict[Operation, bool] = {
            "see": await may_see(ann, memory_id, "ann" if own else "bob"),
            "read": await may_read(ann, memory_id, word),
            "edit": await may_edit(ann, memory_id),
            "delete": await may_delete(ann, memory_id),
        }
        if own:
            answers["create"] = await place.saved(ann, visibility) is not None
        there = memory_id in {item.id for item in await makers[own].list_memories()}
        assert there is not answers["delete"]
        for operation, answer in answers.items():
            mine, others = PROJECT[role, operation]
            if answer is not (visibility in (mine if own else others).split()):
                wrong.append((role, visibility, own, operation, answer))
    assert wrong == []
    await place.memory.check()
    await place.memory.aclose()


async def test_memories_of_users_sessions_and_other_projects_are_nobody_else_s(place: Place) -> None:
    bob = place.for_("bob", "apollo", "owner")
    kept = {
        (scope, visibility): await place.saved(bob, visibility, scope)
        for scope, visibility in product(("user", "session"), VISIBILITIES)
    }
    elsewhere = await place.saved(place.for_("bob", "gemini", "owner"), "public")
    for memory_id in (*kept.values(), elsewhere):
        assert memory_id is not None
        for role in MEMBERS:
            ann = place.for_("ann", "apollo", role)
            word = (await _maker(place, memory_id, elsewhere).get(memory_id)).content.split()[0]
            assert not await may_see(ann, memory_id, "bob")
            assert not await may_read(ann, memory_id, word)
            assert not await may_edit(ann, memory_id)
            assert not await may_delete(ann, memory_id)
        assert await may_edit(_maker(place, memory_id, elsewhere), memory_id)
        assert await may_delete(_maker(place, memory_id, elsewhere), memory_id)
    await place.memory.check()
    await place.memory.aclose()


def _maker(place: Place, memory_id: str, elsewhere: str | None) -> MemoryService:
    return place.for_("bob", "gemini" if memory_id == elsewhere else "apollo", "owner")
