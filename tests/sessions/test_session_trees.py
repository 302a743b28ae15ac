"""What happens to a session happens to its sub-agents' sessions: archived, restored, deleted and exported together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from tests.cli.conftest import Zeus, zeus
from tests.delegation.test_subagents import cast, task
from tests.sessions.test_lifecycle import do, log_of, rows, talk
from tests.support.agents import PositionModel, call, calling, events_of, play, write_agent
from tests.support.databases import SQLITE_URL, storage
from zeus_runtime import Agent, ConfigError
from zeus_runtime.config.model import Retention
from zeus_runtime.errors import UsageError
from zeus_runtime.events import Notice, RunCompleted
from zeus_runtime.store.session_lock import LogConflictError

__all__ = ["zeus"]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def family_model() -> PositionModel:
    """A parent that has a child, which has a child of its own."""
    return cast(
        go=[calling(task("t1", "work on it")), "done"],
        work=[calling(task("t2", "look at it", "deep")), calling(call("echo", "e1", text="x")), "worked"],
        look=["looked"],
        again=["answered again"],
    )


YAML = "agents: {helper: {description: Helps., config: helper.yaml}}\n"
HELPER = """version: 1
name: helper
model: gpt-4o
tools: [probe, subagents]
plugins: {files: [probe.py]}
agents: {deep: {description: Looks.}}
"""


def family(
    folder: Path, url: str = SQLITE_URL, helper: str = HELPER, model: PositionModel | None = None
) -> Agent:
    (folder / "helper.yaml").write_text(helper)
    config = write_agent(folder, YAML + storage(url), tools="[probe, subagents]")
    return Agent.from_config(config, directory=folder, model=model or family_model())


async def every_row(url: str, folder: Path) -> list[list[str]]:
    return [sorted(map(repr, table)) for table in await rows(url, folder)]


async def count(url: str, folder: Path, table: str) -> int:
    query = text(f"SELECT count(*) FROM {table}")
    return int(await do(url, folder, lambda connection: connection.execute(query).scalar_one()))


async def test_a_family_is_archived_and_comes_back_together(tmp_path: Path, database_url: str) -> None:
    async with family(tmp_path, database_url) as agent:
        session = await talk(agent, "go")
        before = await every_row(database_url, tmp_path)
        assert await count(database_url, tmp_path, "thread") == 3
        assert await agent.archive(session)
        assert not any(await rows(database_url, tmp_path)), "nothing of a sub-agent's stays behind"
        assert await count(database_url, tmp_path, "checkpoint_archive") == 3
        assert not await agent.archive(session)
        assert await agent.restore(session)
        assert await every_row(database_url, tmp_path) == before
        assert await count(database_url, tmp_path, "checkpoint_archive") == 0
        ending = (await play(agent, "again", session))[-1]
        assert isinstance(ending, RunCompleted)
        assert await agent.archive(session)
        await agent.delete_session(session)
    for table in ("thread", "checkpoint_archive", "message", "thread_parent"):
        assert await count(database_url, tmp_path, table) == 0


async def test_a_member_alone_is_neither_archived_nor_restored_nor_deleted(tmp_path: Path) -> None:
    async with family(tmp_path) as agent:
        session = await talk(agent, "go")
        async with log_of(SQLITE_URL, tmp_path) as log:
            (child,) = await log.children(session)
        with pytest.raises(UsageError, match=f"works for {session}"):
            await agent.archive(child.session)
        with pytest.raises(UsageError, match=f"works for {session}"):
            await agent.delete_session(child.session)
        await agent.archive(session)
        with pytest.raises(UsageError, match=f"works for {session}"):
            await agent.restore(child.session)
        with pytest.raises(UsageError, match=f"works for {session}"):
            await agent.delete_session(child.session)
        pruned = await agent.prune(Retention(archived_max_age_days=0.00000000001))
        assert pruned.deleted == [session], "one line for a family"
    assert await count(SQLITE_URL, tmp_path, "thread") == 0


async def test_a_message_that_is_answered_again_has_sub_agents_of_its_own(
    tmp_path: Path, database_url: str
) -> None:
    model = family_model()
    async with family(tmp_path, database_url, model=model) as agent:
        session = await talk(agent, "go")
        asked = len(model.requests)
        await agent.rollback(session, to=1)
        assert isinstance((await events_of(agent.resume(session)))[-1], RunCompleted)
        assert len(model.requests) == 2 * asked, "none of them gives the answer of the one that was set aside"
    assert await count(database_url, tmp_path, "thread") == 1 + 2 + 2


async def test_pruning_archives_a_family(tmp_path: Path) -> None:
    async with family(tmp_path) as agent:
        session = await talk(agent, "go")
        assert (await agent.prune(Retention(max_sessions=1))).archived == []
        await talk(agent, "again")
        assert (await agent.prune(Retention(max_sessions=1))).archived == [session]
    assert await count(SQLITE_URL, tmp_path, "checkpoint_archive") == 3


async def test_whoever_worked_for_it_can_write_no_more_once_it_is_archived(
    tmp_path: Path, database_url: str
) -> None:
    async with family(tmp_path, database_url) as agent:
        session = await talk(agent, "go")
        async with log_of(database_url, tmp_path) as late:
            (info,) = await late.children(session)
            child = await late.find(info.session)
            give_back = await late.database.claim(child.session)
            places = len(await late.read(child))
            await agent.archive(session)
            with pytest.raises(LogConflictError):
                await late.append(child, places + 1, "late.1", '"late"')
            give_back()
    assert await count(database_url, tmp_path, "message") == 0


async def test_a_session_is_exported_with_those_that_worked_for_it(zeus: Zeus, tmp_path: Path) -> None:
    async with family(tmp_path) as agent:
        await talk(agent, "go")
    import asyncio

    exported = await asyncio.to_thread(zeus, "sessions", "export", "--config", "zeus.yaml")
    document: dict[str, Any] = exported.json
    (child,) = document["sub_agents"]
    (grandchild,) = child["sub_agents"]
    assert child["parent"] == document["session"]
    assert child["messages"][0]["payload"]["content"] == "work on it"
    assert grandchild["messages"][-1]["payload"]["content"] == "looked"
    written = await asyncio.to_thread(
        zeus, "sessions", "export", "--format", "markdown", "--config", "zeus.yaml"
    )
    assert written.out.count("\nSession `session_") == 3


def notices(agent: Agent) -> list[str]:
    return [each.message for each in agent.plan.notices if each.code == "agents-unused-key"]


def test_what_a_sub_agents_config_says_of_stores_is_said_to_be_unused_with_its_place(tmp_path: Path) -> None:
    own = (
        HELPER + "storage: {url: 'sqlite:///other.db'}\ncheckpointer: memory\nretention: {max_sessions: 3}\n"
    )
    told = notices(family(tmp_path, helper=own))
    assert [each.split(": ")[0].rpartition("/")[2] for each in told] == [
        "helper.yaml:7:10",
        "helper.yaml:8:15",
        "helper.yaml:9:12",
    ]
    assert "storage is not used while helper works as a sub-agent" in told[0]
    same = HELPER + f"storage: {{url: '{SQLITE_URL}'}}\n"
    assert notices(family(tmp_path, helper=same)) == [], "what says the same is used"


async def test_a_run_tells_it_once_and_works_in_one_database(tmp_path: Path) -> None:
    own = HELPER + "storage: {url: 'sqlite:///other.db'}\n"
    async with family(tmp_path, helper=own) as agent:
        events = await play(agent, "go")
    assert isinstance(events[-1], RunCompleted)
    assert (
        len([each for each in events if isinstance(each, Notice) and each.code == "agents-unused-key"]) == 1
    )
    assert not (tmp_path / "other.db").exists()


def test_the_outermost_limit_of_depth_holds_and_another_is_said_to_be_unused(tmp_path: Path) -> None:
    (told,) = notices(family(tmp_path, helper=HELPER + "limits: {max_subagent_depth: 9, max_steps: 5}\n"))
    assert "helper.yaml:7:30: limits.max_subagent_depth is not used while helper works" in told


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        ({"storage": {"url": "sqlite:///other.db"}}, "no storage of its own"),
        ({"checkpointer": "memory"}, "no checkpointer of its own"),
        ({"retention": {"max_sessions": 3}}, "no retention of its own"),
        ({"agents": {"deeper": {"description": "Helps the helper."}}}, "no agents of its own"),
        ({"limits": {"max_subagents": 2}}, "no agents of its own"),
        ({"limits": {"max_subagent_depth": 2}}, "no agents of its own"),
    ],
)
def test_an_override_that_could_do_nothing_is_refused(
    tmp_path: Path, overrides: dict[str, Any], told: str
) -> None:
    agents = {"helper": {"description": "Helps.", "overrides": overrides}}
    config = write_agent(tmp_path, f"agents: {json.dumps(agents)}\n", tools="[subagents]")
    with pytest.raises(ConfigError) as raised:
        Agent.from_config(config, directory=tmp_path)
    (problem,) = raised.value.diagnostics
    assert problem.code == "agents-unused-key"
    assert told in problem.message
    assert problem.position is not None
    assert problem.position.line == 6
