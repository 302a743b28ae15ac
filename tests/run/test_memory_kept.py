"""What an agent remembers of one session alone goes with the session, and nothing else does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.sessions.test_lifecycle import talk
from tests.store.test_fencing import claimed_in_time, lose_claims
from tests.support.agents import script, write_agent
from tests.support.databases import execute, storage
from tests.support.logs import log_of
from zeus_runtime import Agent
from zeus_runtime.config.model import Retention
from zeus_runtime.errors import RunError
from zeus_runtime.memory.items import Caller
from zeus_runtime.memory.service import MemoryService
from zeus_runtime.store.session_lock import LogConflictError


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def remembering(folder: Path, url: str) -> Agent:
    if url.startswith("postgres"):
        execute(url, "CREATE EXTENSION IF NOT EXISTS vector")
    config = write_agent(folder, storage(url) + "memory: {user: ann, project: shop, embeddings: static}\n")
    return Agent.from_config(config, directory=folder, model=script("hello", "hello again"))


async def contents(memory: MemoryService, user: str, session: str) -> list[str]:
    own = memory.for_caller(Caller(user, "shop", "editor", session))
    return sorted(each.content for each in await own.list_memories(status=None))


async def kept_of(agent: Agent) -> tuple[MemoryService, Sequence[str]]:
    """Two sessions, with memories of two users in the first and of one in the second."""
    memory = agent.plan.context.memory
    assert memory is not None
    sessions = [await talk(agent, "go"), await talk(agent, "go")]
    for user, session, scope, text in (
        ("ann", sessions[0], "session", "Today's invoice has the number 17"),
        ("ann", sessions[0], "session", "Today's invoice has the number 18"),
        ("bob", sessions[0], "session", "Bob waits for the parcel from Oslo"),
        ("ann", sessions[0], "user", "Ann plays the cello"),
        ("bob", sessions[0], "project", "The shop opens at nine"),
        ("ann", sessions[1], "session", "Tomorrow's invoice is about chairs"),
    ):
        caller = Caller(user, "shop", "editor", session)
        saved = await memory.for_caller(caller).add_explicit_memory(text, scope=scope)
        assert saved.item is not None
    return memory, sessions


@pytest.mark.parametrize("way", ["deleted", "archived and deleted", "pruned"])
async def test_memories_of_a_session_alone_go_when_it_is_deleted(
    tmp_path: Path, database_url: str, way: str
) -> None:
    async with remembering(tmp_path, database_url) as agent:
        memory, (first, second) = await kept_of(agent)
        if way == "pruned":
            await agent.prune(Retention(max_sessions=1, archive=False))
        elif way == "deleted":
            await agent.delete_session(first)
        else:
            await agent.archive(first)
            assert len(await contents(memory, "ann", first)) == 4, "an archived session comes back with them"
            await agent.delete_session(first)
        assert await contents(memory, "ann", first) == ["Ann plays the cello", "The shop opens at nine"]
        assert await contents(memory, "bob", first) == ["The shop opens at nine"]
        assert "Tomorrow's invoice is about chairs" in await contents(memory, "ann", second)
        own = memory.for_caller(Caller("ann", "shop", "editor", first))
        assert not [
            each
            for each in await own.search_memories("Which number has the invoice?")
            if each.scope == "session"
        ]
        await memory.check()


async def test_a_process_that_lost_a_session_while_it_deletes_it_takes_nothing_from_its_successor(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with remembering(tmp_path, database_url) as agent, log_of(database_url, tmp_path) as (other, log):
        memory, (first, _) = await kept_of(agent)
        before = await contents(memory, "ann", first)
        successor, forget = await log.find(first), memory.forget_sessions

        async def stopped_first(*args: Any, **more: Any) -> int:
            lose_claims(database_url, tmp_path)
            await claimed_in_time(other, first)
            await log.append(successor, 3, "b.3", '{"role": "user", "content": "still here"}')
            return await forget(*args, **more)

        monkeypatch.setattr(memory, "forget_sessions", stopped_first)
        with pytest.raises(LogConflictError, match="another process has taken the session"):
            await agent.delete_session(first)
        assert await contents(memory, "ann", first) == before
        assert [entry.id for entry in await log.read(successor)][-1] == "b.3"
        await memory.check()


async def test_a_deletion_that_fails_leaves_the_session_its_memories(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with remembering(tmp_path, database_url) as agent:
        memory, (first, _) = await kept_of(agent)
        before = await contents(memory, "ann", first)

        def broken(*_: Any) -> None:
            raise RunError("the power is gone")

        with monkeypatch.context() as patch:
            patch.setattr("zeus_runtime.memory.records.remove", broken)
            with pytest.raises(RunError, match="the power is gone"):
                await agent.delete_session(first)
        assert await contents(memory, "ann", first) == before
        assert len(await agent.history(first)) == 2
        await agent.delete_session(first)
        assert len(await contents(memory, "ann", first)) == 2
        assert first not in {each.session for each in await agent.sessions()}


async def test_in_memory_a_session_goes_with_its_memories_too(tmp_path: Path) -> None:
    async with remembering(tmp_path, "sqlite://") as agent:
        memory, (first, second) = await kept_of(agent)
        await agent.delete_session(first)
        assert len(await contents(memory, "ann", first)) == 2
        assert [each.session for each in await agent.sessions()] == [second]
