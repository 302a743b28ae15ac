"""Each step after a run has its own fate: one that fails is one notice, and the others are done."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text

from tests.sessions.test_lifecycle import EVICTING, Counting, agent_in, do, talk
from tests.support.agents import TOOLS, Answer, PositionModel, call, calling, events_of, play, write_agent
from tests.support.databases import SQLITE_URL, storage
from zeus_runtime import Agent, Decision
from zeus_runtime.config.model import Retention
from zeus_runtime.context.archive import Archive
from zeus_runtime.errors import RunError
from zeus_runtime.events import Event, Notice, RunCompleted, RunFailed
from zeus_runtime.plugin.model import ModelRequest
from zeus_runtime.sessions.deletion import delete
from zeus_runtime.sessions.lifecycle import SessionLifecycle
from zeus_runtime.sessions.retention import DAY_MS
from zeus_runtime.store.database import Database
from zeus_runtime.store.threads import Thread

PLAIN_SAVER = '''
from contextlib import asynccontextmanager
from langgraph.checkpoint.memory import InMemorySaver

@asynccontextmanager
async def plain(options, context):
    """LangGraph's own saver, which cannot prune."""
    yield InMemorySaver()

@hookimpl
def register_checkpointers():
    return [Component("plain", create=plain)]
'''
PLAIN = "checkpointer: plain\n"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def agent_with_plain_saver(folder: Path, model: PositionModel, yaml: str = "") -> Agent:
    config = write_agent(folder, storage(SQLITE_URL) + PLAIN + yaml, plugin=TOOLS + PLAIN_SAVER)
    return Agent.from_config(config, directory=folder, model=model)


def notices(events: list[Event]) -> list[tuple[str, str]]:
    notices = [each for each in events if isinstance(each, Notice) and each.code != "usage_unknown"]
    return [(each.code, each.message) for each in notices]


async def checkpoints_of(agent: Agent, session: str) -> int:
    saver = (await agent._open()).saver
    return len([each async for each in saver.alist({"configurable": {"thread_id": session}})])


async def days_pass(agent: Agent, days: int) -> None:
    log = (await agent._open()).log
    now = log.now_ms
    log.now_ms = lambda: now() + days * DAY_MS


async def test_with_a_saver_that_cannot_prune_the_retention_is_kept_and_nobody_is_bothered(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    said = Counting()
    async with agent_with_plain_saver(tmp_path, said.model, "retention: {max_age_days: 30}\n") as agent:
        old = await talk(agent, "one")
        await days_pass(agent, 31)
        events = await play(agent, "two")
        assert isinstance(events[-1], RunCompleted)
        assert [each.session for each in await agent.sessions()] == [events[-1].session]
        assert old not in [each.session for each in await agent.sessions()]
    assert notices(events) == []
    assert caplog.records == []


async def test_a_saver_that_cannot_prune_keeps_nothing_of_a_run_that_is_complete(tmp_path: Path) -> None:
    said = Counting()
    async with agent_with_plain_saver(tmp_path, said.model) as agent:
        session = await talk(agent, "one", "two")
        assert await checkpoints_of(agent, session) == 0
        ending = (await play(agent, "three", session))[-1]
        assert isinstance(ending, RunCompleted)
        assert said.last_seen == [
            ("human", "one"),
            ("ai", "answer 1"),
            ("human", "two"),
            ("ai", "answer 2"),
            ("human", "three"),
        ]


async def test_what_waits_for_an_approval_is_taken_up_with_a_saver_that_cannot_prune(tmp_path: Path) -> None:
    model = PositionModel(
        lambda request: (
            calling(call("record", "r1", text="x"), call("record", "r2", text="y"))
            if len(request.messages) == 1
            else "fine"
        )
    )
    async with agent_with_plain_saver(tmp_path, model, "middlewares: [approve]\n") as agent:
        waits = (await play(agent, "go"))[-1]
        assert isinstance(waits, RunFailed)
        assert waits.code == "approval_needed"
        decisions = {each["id"]: Decision("approve") for each in waits.details["pending"]}
        await agent.decide(waits.session, decisions)
        ending = (await events_of(agent.resume(waits.session)))[-1]
        assert isinstance(ending, RunCompleted), ending
    assert sorted((tmp_path / "effects.txt").read_text().split()) == ["x", "y"]


async def test_a_long_run_goes_on_with_a_saver_that_cannot_prune(tmp_path: Path) -> None:
    def answer(request: object) -> object:
        said = sum(message.type == "ai" for message in request.messages)  # type: ignore[attr-defined]
        return calling(call("echo", f"e{said}", text="x")) if said < 5 else "done"

    async with agent_with_plain_saver(tmp_path, PositionModel(answer)) as agent:  # type: ignore[arg-type]
        events = await play(agent, "go")
    assert isinstance(events[-1], RunCompleted), events[-1]
    assert notices(events) == []


BROKEN = "the disk is on fire"


def steps_done(
    monkeypatch: pytest.MonkeyPatch, failing: str, error: type[BaseException] = OSError
) -> list[str]:
    """Which steps are done from now on; ``failing`` raises instead."""
    done: list[str] = []

    def watch(owner: object, name: str, step: str) -> None:
        async def reached(*_given: object, **_named: object) -> None:
            if step == failing:
                raise error(BROKEN)
            done.append(step)

        monkeypatch.setattr(owner, name, reached)

    from zeus_plugins.checkpointers.sqlite.saver import SqliteSaver

    watch(__import__("zeus_runtime.store.turns").store.turns, "end_turn", "snapshot")
    watch(SqliteSaver, "aprune", "checkpoints")
    watch(Database, "checkpoint", "log")
    watch(__import__("zeus_runtime.agent.runner").agent.runner, "prune_daily", "retention")
    watch(Database, "compact", "compaction")

    def collect(_archive: object) -> None:
        if failing == "archive":
            raise OSError(BROKEN)
        done.append("archive")

    monkeypatch.setattr(Archive, "collect", collect)
    return done


ALL = ["snapshot", "checkpoints", "log", "retention", "compaction", "archive"]
WHY = {
    "snapshot": "the snapshot of the turn was not written",
    "checkpoints": "older checkpoints were not removed",
    "log": "the write-ahead log was not moved into the database",
    "retention": "sessions beyond `retention` were not put away",
    "compaction": "free space was not given back",
    "archive": "archived files beyond `archive` were not removed",
}


@pytest.mark.parametrize("failing", ALL)
async def test_a_step_that_fails_is_one_notice_and_the_others_are_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, failing: str
) -> None:
    done = steps_done(monkeypatch, failing)
    model = PositionModel(
        lambda request: (
            calling(call("echo", "e1", text="long " * 2_000)) if len(request.messages) == 1 else "fine"
        )
    )
    async with agent_in(tmp_path, SQLITE_URL, model, EVICTING) as agent:
        events = await play(agent, "go")
        assert isinstance(events[-1], RunCompleted)
    assert done == [step for step in ALL if step != failing]
    told = [message for code, message in notices(events) if code == "not_tidied"]
    assert len(told) == 1
    assert told[0].startswith(f"{WHY[failing]}: OSError: {BROKEN}")
    assert not any(record.exc_info for record in caplog.records)


async def test_a_step_that_exits_with_a_text_is_a_notice_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = steps_done(monkeypatch, "checkpoints", SystemExit)
    async with agent_in(tmp_path, SQLITE_URL, PositionModel(lambda _: "fine"), EVICTING) as agent:
        events = await play(agent, "go")
    assert isinstance(events[-1], RunCompleted)
    assert done == ["snapshot", "log", "retention", "compaction"]
    ((_, told),) = notices(events)
    assert told.startswith(f"{WHY['checkpoints']}: SystemExit: {BROKEN}")


async def test_a_session_that_cannot_be_put_away_keeps_no_other_one_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = Counting()
    async with agent_in(tmp_path, SQLITE_URL, said.model) as agent:
        stuck, other = await talk(agent, "one"), await talk(agent, "two")
        await days_pass(agent, 31)

        async def refused(lifecycle: SessionLifecycle, thread: Thread) -> None:
            if thread.session == stuck:
                raise RunError("its rows are damaged", remedy="Restore a backup.")
            await delete(lifecycle, thread)

        monkeypatch.setattr("zeus_runtime.sessions.retention.delete", refused)
        pruned = await agent.prune(Retention(max_age_days=30, archive=False))
        assert pruned.deleted == [other]
        assert pruned.failed == [(stuck, "its rows are damaged")]


async def test_a_session_that_cannot_be_put_away_is_named_and_tried_again_after_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = Counting()
    async with agent_in(tmp_path, SQLITE_URL, said.model, "retention: {max_age_days: 30}\n") as agent:
        stuck = await talk(agent, "one")
        await days_pass(agent, 31)
        with monkeypatch.context() as broken:

            async def refused(_keeper: SessionLifecycle, _thread: Thread) -> bool:
                raise OSError(BROKEN)

            broken.setattr(SessionLifecycle, "archive_claimed", refused)
            events = await play(agent, "two")
        (told,) = [message for code, message in notices(events) if code == "not_tidied"]
        assert stuck in told
        assert BROKEN in told
        again = await play(agent, "three")
        assert notices(again) == []
        assert stuck not in [each.session for each in await agent.sessions()]


async def test_what_else_goes_with_a_session_goes_though_one_of_it_fails(tmp_path: Path) -> None:
    said = Counting()
    async with agent_in(tmp_path, SQLITE_URL, said.model) as agent:
        session = await talk(agent, "one")
        lifecycle = await agent._runner.lifecycle()
        forgotten: list[str] = []

        async def fails(_session: str) -> None:
            raise OSError(BROKEN)

        async def forgets(name: str) -> None:
            forgotten.append(name)

        from dataclasses import replace

        with pytest.raises(OSError, match=BROKEN):
            await replace(lifecycle, forget=[fails, forgets]).delete(session)
        assert forgotten == [session]
        left = await do(
            SQLITE_URL, tmp_path, lambda c: c.execute(text("SELECT count(*) FROM thread")).scalar()
        )
        assert left == 0


async def test_a_long_run_stores_one_checkpoint_when_it_ends_and_a_session_keeps_one(tmp_path: Path) -> None:
    seen: list[int] = []

    def stored() -> int:
        with closing(sqlite3.connect(tmp_path / ".zeus" / "zeus.db")) as database:
            return int(database.execute("SELECT count(*) FROM checkpoint").fetchone()[0])

    def answer(request: ModelRequest) -> Answer:
        seen.append(stored())
        return calling(call("echo", f"e{len(seen)}", text="x")) if len(seen) < 30 else "done"

    async with agent_in(tmp_path, SQLITE_URL, PositionModel(answer)) as agent:
        ending = (await play(agent, "go"))[-1]
        assert isinstance(ending, RunCompleted)
        assert (seen, stored()) == ([0] * 30, 1)
        await play(agent, "go on", ending.session)
        assert stored() == 1
