"""Members of a project: once there are any, their rows decide who may what, whatever a config says."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.errors import InsufficientPrivilege
from zeus_plugins.embeddings.static.embedder import StaticEmbedder
from zeus_plugins.vector_stores.pgvector.store import PgVectorStore
from zeus_plugins.vector_stores.sqlite.store import SqliteVectorStore

from tests.support.databases import execute
from tests.support.least_rights import acting, as_agent
from tests.support.memory import service
from zeus_runtime.errors import UsageError
from zeus_runtime.knowledge.service import KnowledgeService
from zeus_runtime.memory.items import ROLES, Caller, MemorySettings, Role
from zeus_runtime.memory.members import Member, acting_as, refusal
from zeus_runtime.memory.outcomes import UnknownMemoryError
from zeus_runtime.memory.service import MemoryService

SETTINGS = MemorySettings(duplicate_threshold=1, related_threshold=1, related_words=1)
WHEN = datetime(2026, 3, 1, tzinfo=UTC)
USERS = ("ann", "bob", "cid")


@pytest.fixture(params=["sqlite", "postgres", "postgres as the agents' role"])
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MemoryService]:
    if request.param == "sqlite":
        yield service(tmp_path, settings=SETTINGS, open_vectors=SqliteVectorStore)
        return
    url = request.getfixturevalue("postgres_url")
    execute(url, "CREATE EXTENSION vector")
    if request.param == "postgres":
        yield service(tmp_path, settings=SETTINGS, url=url, open_vectors=PgVectorStore)
        return
    import asyncio

    first = service(tmp_path, settings=SETTINGS, url=url, open_vectors=PgVectorStore)
    asyncio.run(_opened_once(first))
    with as_agent(url) as restricted:
        yield service(tmp_path, settings=SETTINGS, url=restricted, open_vectors=PgVectorStore)


async def _opened_once(memory: MemoryService) -> None:
    await memory.list_memories()
    await memory.aclose()


def says(memory: MemoryService, user: str, role: Role = "owner", project: str = "apollo") -> MemoryService:
    """The memory for a user whose config says that they have this role."""
    return memory.for_caller(Caller(user, project, role, f"session of {user}"))


async def test_without_members_the_config_says_the_role(memory: MemoryService) -> None:
    assert await says(memory, "ann").members.all() == ()
    saved = await says(memory, "ann").add_explicit_memory("the rocket is white", scope="project")
    assert saved.item is not None
    assert (await says(memory, "bob", "viewer").get(saved.item.id)).content == "the rocket is white"
    refused = await says(memory, "bob", "viewer").add_explicit_memory("the moon is grey", scope="project")
    assert refused.item is None
    await memory.aclose()


async def test_a_row_wins_over_the_role_that_a_config_says(memory: MemoryService) -> None:
    ann = says(memory, "ann")
    await ann.members.put("ann", "owner")
    await ann.members.put("bob", "viewer")
    saved = await ann.add_explicit_memory("the rocket is white", scope="project")
    assert saved.item is not None
    boastful = says(memory, "bob", "owner")
    assert (await boastful.get(saved.item.id)).content == "the rocket is white"
    assert (await boastful.add_explicit_memory("the moon is grey", scope="project")).item is None
    with pytest.raises(UnknownMemoryError):
        await boastful.delete_memory(saved.item.id)
    with pytest.raises(UsageError, match="'viewer' does not allow it"):
        await boastful.members.put("bob", "owner")
    await ann.members.put("bob", "admin")
    await boastful.delete_memory(saved.item.id)
    await memory.aclose()


async def test_who_has_no_row_sees_nothing_of_a_project_that_has_members(memory: MemoryService) -> None:
    ann, eve = says(memory, "ann"), says(memory, "eve", "owner")
    await ann.members.put("ann", "owner")
    saved = await ann.add_explicit_memory("the rocket is white", scope="project", visibility="public")
    assert saved.item is not None
    own = await eve.add_explicit_memory("my cat is black", scope="user")
    assert own.item is not None
    assert await eve.search_memories("rocket") == []
    assert [each.id for each in await eve.list_memories()] == [own.item.id]
    assert await eve.hidden_memories() == []
    assert (await eve.get_profile_for_agent()).strip() == ""
    for asks in (eve.get(saved.item.id), eve.delete_memory(saved.item.id), eve.memory_history(saved.item.id)):
        with pytest.raises(UnknownMemoryError):
            await asks
    with pytest.raises(UsageError, match="'eve' is not a member of the project 'apollo'"):
        await eve.members.all()
    with pytest.raises(UsageError, match="'eve' is not a member"):
        await eve.members.put("eve", "owner")
    assert await says(memory, "eve", "owner", "gemini").members.all() == ()
    await memory.aclose()


async def test_who_leaves_loses_access_with_the_next_call_of_an_open_memory(memory: MemoryService) -> None:
    ann, bob = says(memory, "ann"), says(memory, "bob")
    await ann.members.put("ann", "owner")
    await ann.members.put("bob", "editor")
    saved = await ann.add_explicit_memory("the rocket is white", scope="project")
    assert saved.item is not None
    assert [each.item.id for each in await bob.search_memories("rocket")] == [saved.item.id]
    await ann.members.remove("bob")
    assert await bob.search_memories("rocket") == []
    await memory.aclose()


async def test_members_are_listed_by_name_with_the_day_they_joined(memory: MemoryService) -> None:
    ann = says(memory, "ann")
    first = await ann.members.put("ann", "owner")
    await ann.members.put("cid", "viewer")
    second = await ann.members.put("bob", "viewer")
    again = await ann.members.put("bob", "editor")
    assert again.since == second.since
    listed = await says(memory, "bob").members.all()
    assert [(each.user_id, each.role) for each in listed] == [
        ("ann", "owner"),
        ("bob", "editor"),
        ("cid", "viewer"),
    ]
    assert listed[0] == first
    with pytest.raises(UsageError, match="'dan' is not a member"):
        await ann.members.remove("dan")
    with pytest.raises(UsageError, match="not a user's name"):
        await ann.members.put("dan\n", "viewer")
    await memory.aclose()


async def test_the_last_owner_stays_so_that_the_config_never_decides_again(memory: MemoryService) -> None:
    ann = says(memory, "ann")
    with pytest.raises(UsageError, match="the first member of a project is an owner"):
        await ann.members.put("bob", "editor")
    await ann.members.put("ann", "owner")
    for attempt in (ann.members.remove("ann"), ann.members.put("ann", "viewer")):
        with pytest.raises(UsageError, match="'ann' is the only owner"):
            await attempt
    await ann.members.put("bob", "owner")
    await ann.members.remove("ann")
    assert [each.user_id for each in await says(memory, "bob").members.all()] == ["bob"]
    await memory.aclose()


async def test_a_memory_without_a_project_has_no_members(memory: MemoryService) -> None:
    with pytest.raises(UsageError, match="no project"):
        await memory.for_caller(Caller("ann")).members.all()
    await memory.aclose()


async def test_knowledge_bases_obey_the_same_rows(tmp_path: Path) -> None:
    memory = service(tmp_path, settings=SETTINGS, open_vectors=SqliteVectorStore)
    await says(memory, "ann").members.put("ann", "owner")
    await says(memory, "ann").members.put("bob", "viewer")
    url = memory._shared.source.url
    await memory.aclose()
    text = tmp_path / "rocket.md"
    text.write_text("# Rocket\nThe rocket is white.\n")

    def bases(user: str) -> KnowledgeService:
        return KnowledgeService(
            url,
            tmp_path,
            open_vectors=SqliteVectorStore,
            open_embedder=StaticEmbedder,
            caller=Caller(user, "apollo", "owner"),
        )

    ann, bob, eve = map(bases, USERS)
    await ann.add("facts", [text], project=True)
    assert [each.name for each in await bob.bases()] == ["facts"]
    with pytest.raises(UsageError):
        await bob.add("facts", [text])
    assert await eve.bases() == []
    for each in (ann, bob, eve):
        await each.aclose()


members = st.dictionaries(st.sampled_from(USERS), st.sampled_from(ROLES))


@given(
    members,
    st.sampled_from(USERS),
    st.sampled_from(ROLES),
    st.sampled_from(USERS),
    st.sampled_from((*ROLES, None)),
)
def test_no_step_leaves_members_without_an_owner_or_raises_whoever_is_no_head(
    roles: dict[str, Role], user: str, said: Role, target: str, role: Role | None
) -> None:
    if roles and "owner" not in roles.values():
        return
    there = {name: Member(name, each, WHEN) for name, each in roles.items()}
    caller = acting_as(Caller(user, "apollo", said), there)
    assert caller.role == (roles.get(user) if roles else said)
    if refusal(caller, there, target, role) is not None:
        return
    after = (
        {**roles, target: role} if role else {name: each for name, each in roles.items() if name != target}
    )
    assert "owner" in after.values()
    if caller.role not in ("owner", "admin"):
        assert (target, role) == (user, None)
    if caller.role == "admin" and target != user:
        assert roles.get(target) not in ("owner", "admin")
        assert role not in ("owner", "admin")


async def test_the_wall_shows_and_changes_members_of_the_own_project_only(
    postgres_url: str, tmp_path: Path
) -> None:
    execute(postgres_url, "CREATE EXTENSION vector")
    first = service(tmp_path, settings=SETTINGS, url=postgres_url, open_vectors=PgVectorStore)
    await says(first, "ann").members.put("ann", "owner")
    await says(first, "ann").members.put("bob", "editor")
    await first.aclose()

    def seen(connection: Any) -> list[str]:
        return sorted(row[0] for row in connection.execute("SELECT user_id FROM project_member"))

    with as_agent(postgres_url) as url:
        with acting(url, "ann", "gemini", "owner") as connection:
            assert seen(connection) == []
            assert connection.execute("DELETE FROM project_member").rowcount == 0
        with acting(url, "bob", "apollo", "editor") as connection:
            assert seen(connection) == ["ann", "bob"]
            assert connection.execute("UPDATE project_member SET role = 'owner'").rowcount == 0
            with pytest.raises(InsufficientPrivilege):
                connection.execute("INSERT INTO project_member VALUES ('apollo', 'eve', 'owner', 1)")
        with acting(url, "bob", "apollo", "editor") as connection:
            assert connection.execute("DELETE FROM project_member").rowcount == 1
