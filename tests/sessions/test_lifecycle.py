"""Sessions that go back to an earlier message, are archived, restored and pruned, on SQLite and PostgreSQL alike."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, text

from tests.support.agents import (
    Answer,
    PositionModel,
    call,
    calling,
    events_of,
    play,
    shape,
    write_agent,
)
from tests.support.databases import SQLITE_URL, storage
from zeus_runtime import Agent
from zeus_runtime.config.model import Retention
from zeus_runtime.errors import RunError, UsageError
from zeus_runtime.events import RunCompleted, RunFailed
from zeus_runtime.plugin.model import ModelRequest
from zeus_runtime.sessions.deletion import delete
from zeus_runtime.sessions.lifecycle import SessionLifecycle
from zeus_runtime.sessions.retention import DAY_MS, due
from zeus_runtime.store.archived import archive
from zeus_runtime.store.database import Database
from zeus_runtime.store.rollbacks import roll_back, rollbacks
from zeus_runtime.store.session_lock import claim_lost
from zeus_runtime.store.session_tree import removal
from zeus_runtime.store.snapshots import snapshots
from zeus_runtime.store.thread_log import ThreadLog
from zeus_runtime.store.threads import Thread

ROWS = (
    "SELECT seq, id, created_ms, payload FROM message ORDER BY seq",
    "SELECT number, at_seq, payload FROM context_edit ORDER BY number",
    "SELECT number, seq, created_ms, payload FROM context_step ORDER BY number",
    "SELECT digest, text FROM context_text ORDER BY digest",
    "SELECT number, kept_seq, last_seq, edits, steps, created_ms FROM thread_rollback ORDER BY number",
    "SELECT number, at_seq, edits, run_id, reason, created_ms FROM session_state_snapshot ORDER BY number",
)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


class Counting:
    """A model that numbers its answers and never gives one twice."""

    def __init__(self) -> None:
        self.model = PositionModel(self._answer)
        self._given = 0

    def _answer(self, _request: ModelRequest) -> Answer:
        self._given += 1
        return f"answer {self._given}"

    @property
    def last_seen(self) -> list[tuple[str, str]]:
        return shape(self.model.requests[-1].messages)


@asynccontextmanager
async def log_of(url: str, folder: Path) -> AsyncIterator[ThreadLog]:
    database = Database(url, directory=folder)
    try:
        log = ThreadLog(database)
        await log.create_tables()
        yield log
    finally:
        await database.close()


async def do(url: str, folder: Path, work: Callable[[Connection], Any]) -> Any:
    async with log_of(url, folder) as log:
        return await log.database.run(work)


async def rows(url: str, folder: Path) -> list[list[tuple[Any, ...]]]:
    """Every row of the only session, values as they are stored."""

    def read(connection: Connection) -> list[list[tuple[Any, ...]]]:
        return [
            [
                tuple(bytes(v) if isinstance(v, memoryview) else v for v in row)
                for row in connection.execute(text(query))
            ]
            for query in ROWS
        ]

    found: list[list[tuple[Any, ...]]] = await do(url, folder, read)
    return found


def agent_in(folder: Path, url: str, model: PositionModel, yaml: str = "") -> Agent:
    return Agent.from_config(write_agent(folder, storage(url) + yaml), directory=folder, model=model)


async def talk(agent: Agent, *prompts: str) -> str:
    """A session with a turn for each prompt."""
    session: str | None = None
    for prompt in prompts:
        ending = (await play(agent, prompt, session))[-1]
        assert isinstance(ending, RunCompleted), ending
        session = ending.session
    assert session is not None
    return session


async def ended(agent: Agent, session: str) -> RunCompleted:
    ending = (await events_of(agent.resume(session)))[-1]
    assert isinstance(ending, RunCompleted), ending
    return ending


async def test_an_earlier_message_is_answered_again_and_what_came_after_stays_readable(
    tmp_path: Path, database_url: str
) -> None:
    said = Counting()
    async with agent_in(tmp_path, database_url, said.model) as agent:
        session = await talk(agent, "one", "two", "three")
        assert await agent.rollback(session, to=3) == 3
        start = [("human", "one"), ("ai", "answer 1"), ("human", "two")]
        assert shape(await agent.history(session)) == start

        assert (await ended(agent, session)).answer == "answer 4"
        assert said.last_seen == start
        await play(agent, "four", session)
        assert said.last_seen == [*start, ("ai", "answer 4"), ("human", "four")]

        aside = [("ai", "answer 2"), ("human", "three"), ("ai", "answer 3")]
        later = [("ai", "answer 4"), ("human", "four"), ("ai", "answer 5")]
        assert shape(await agent.history(session)) == [*start, *later]
        assert shape(await agent.history(session, whole=True)) == [*start, *aside, *later]
        (info,) = await agent.sessions()
        assert (info.messages, info.state) == (6, "complete")
    messages = (await rows(database_url, tmp_path))[0]
    assert [row[0] for row in messages] == [*range(1, 10)], "no number is given out twice"
    assert len({row[1] for row in messages}) == 9, "nor an id"


async def test_a_message_is_worded_anew_after_going_back_before_it(tmp_path: Path, database_url: str) -> None:
    said = Counting()
    async with agent_in(tmp_path, database_url, said.model) as agent:
        session = await talk(agent, "one", "two")
        assert await agent.rollback(session, to=1, before=True) == 4
        assert await agent.history(session) == []
        failed = (await events_of(agent.resume(session)))[-1]
        assert isinstance(failed, RunFailed)
        assert "nothing to resume" in failed.message
        await play(agent, "uno", session)
        assert said.last_seen == [("human", "uno")]
        assert await agent.rollback(session, to=5) == 1


@pytest.mark.parametrize(
    ("to", "why"), [(2, "not a message of the user"), (3, "nothing comes after"), (9, "not a message")]
)
async def test_going_back_needs_a_message_of_the_users_with_something_after_it(
    tmp_path: Path, to: int, why: str
) -> None:
    said = Counting()
    async with agent_in(tmp_path, SQLITE_URL, said.model) as agent:
        session = await talk(agent, "one", "two")
        await agent.rollback(session, to=3)
        with pytest.raises(UsageError, match=why):
            await agent.rollback(session, to=to)


async def test_tools_find_the_values_of_the_line_again(tmp_path: Path, database_url: str) -> None:
    values = iter("abc")

    def answer(request: ModelRequest) -> Answer:
        if request.messages[-1].type == "tool":
            return "kept"
        value = next(values)
        return calling(call("keep", f"id-{value}", value=value))

    async with agent_in(tmp_path, database_url, PositionModel(answer)) as agent:
        session = await talk(agent, "keep a", "keep b")
        await agent.rollback(session, to=5)
        await ended(agent, session)
        assert [content for kind, content in shape(await agent.history(session)) if kind == "tool"] == [
            "was None",
            "was a",
        ]


async def test_checkpoints_of_before_a_rollback_are_not_taken_up(tmp_path: Path, database_url: str) -> None:
    """As after a kill between the rollback and anything else, or with a checkpointer elsewhere."""
    crash = True

    def answer(request: ModelRequest) -> Answer:
        if len(request.messages) == 3 and crash:
            return calling(call("record", "r1", text="x"), call("fail", "f1"))
        if len(request.messages) == 6:
            return RuntimeError("the provider is down")
        return "fine"

    async with agent_in(tmp_path, database_url, PositionModel(answer)) as agent:
        session = await talk(agent, "one")
        assert isinstance((await play(agent, "two", session))[-1], RunFailed)
        assert [each.state for each in await agent.sessions()] == ["error"]
        async with log_of(database_url, tmp_path) as log:
            thread = await log.find(session)
            made = await roll_back(log, thread, 3)
            assert (made.kept_seq, made.last_seq) == (3, 6)
        crash = False
        assert (await ended(agent, session)).answer == "fine"
        assert shape(await agent.history(session))[2:] == [("human", "two"), ("ai", "fine")]
    assert (tmp_path / "effects.txt").read_text() == "x\n"


@pytest.mark.parametrize("archived", [False, True])
async def test_a_run_that_was_cut_off_goes_on_after_its_session_was_archived(
    tmp_path: Path, database_url: str, archived: bool
) -> None:
    """Checkpoints are gone then; the log alone says what is left, and no finished call repeats."""
    down = True

    def answer(request: ModelRequest) -> Answer:
        if request.messages[-1].type == "human":
            return calling(call("record", "r1", text="x"), call("record", "r2", text="y"))
        return RuntimeError("the provider is down") if down else "done"

    async with agent_in(tmp_path, database_url, PositionModel(answer)) as agent:
        failed = (await play(agent, "go"))[-1]
        assert isinstance(failed, RunFailed)
        session = failed.session
        if archived:
            assert await agent.archive(session)
            assert not await agent.archive(session)
    down = False
    async with agent_in(tmp_path, database_url, PositionModel(answer)) as agent:
        if archived:
            with pytest.raises(UsageError, match="is archived"):
                await events_of(agent.resume(session))
            assert await agent.restore(session)
            assert not await agent.restore(session)
        assert (await ended(agent, session)).answer == "done"
        assert [kind for kind, _ in shape(await agent.history(session))] == [
            "human",
            "ai",
            "tool",
            "tool",
            "ai",
        ]
    assert sorted((tmp_path / "effects.txt").read_text().split()) == ["x", "y"]


async def test_what_is_restored_is_the_same_to_the_byte(tmp_path: Path, database_url: str) -> None:
    said = Counting()
    shed = "middlewares: [{history: {max_messages: 2}}]\n"
    async with agent_in(tmp_path, database_url, said.model, shed) as agent:
        session = await talk(agent, "one ␀ \u2028 \x1c 你好", "two", "three", "four")
        await agent.rollback(session, to=7)
        await ended(agent, session)
        before = await rows(database_url, tmp_path)
        assert all(before), "every table has rows of it"
        await agent.archive(session)
        assert not any(await rows(database_url, tmp_path))
        assert await agent.sessions() == []
        async with log_of(database_url, tmp_path) as log:
            (info,) = await log.sessions(archived=True)
            assert (info.session, info.messages, info.archived_ms is not None) == (session, 9, True)
        await agent.restore(session)
        assert await rows(database_url, tmp_path) == before
        (info,) = await agent.sessions()
        assert (info.messages, info.archived_ms) == (8, None)
        await agent.archive(session)
        await agent.delete_session(session)
        assert (
            await do(
                database_url, tmp_path, lambda c: c.execute(text("SELECT 1 FROM checkpoint_archive")).all()
            )
            == []
        )


EVICTING = "middlewares: [{history: {max_messages: 2}}, {eviction: {max_tokens: 5, preview_lines: 1}}]\n"


def recalled(*texts: str) -> PositionModel:
    """A model that has each text echoed, by calls whose ids every session has, and then answers twice."""
    calls = [calling(call("echo", f"c_{len(each)}", text=each)) for each in texts]
    return PositionModel(
        lambda request: [*calls, "done", "done"][sum(each.type == "ai" for each in request.messages)]
    )


def archived_files(folder: Path) -> set[str]:
    return {
        file.name
        for file in (folder / ".zeus").rglob("*")
        if file.parent.name in ORIGINALS and file.is_file()
    }


ORIGINALS = ("large_tool_results", "conversation_history")
LONG, OTHER, SHARED = "own " * 60, "other " * 70, "shared by two " * 40


@pytest.mark.parametrize("packed", [(), ("gone",), ("left",), ("gone", "left")])
async def test_with_a_session_go_the_originals_that_no_other_session_names(
    tmp_path: Path, packed: tuple[str, ...]
) -> None:
    sessions: dict[str, str] = {}
    for name, text_ in (("gone", LONG), ("left", OTHER)):
        async with agent_in(tmp_path, SQLITE_URL, recalled(text_, SHARED), EVICTING) as agent:
            sessions[name] = await talk(agent, f"{name} one")
            await play(agent, f"{name} two", sessions[name])
    before = archived_files(tmp_path)
    async with agent_in(tmp_path, SQLITE_URL, recalled(), EVICTING) as agent:
        for each in packed:
            await agent.archive(sessions[each])
        assert archived_files(tmp_path) == before, "an archived session can be restored whole"
        await agent.delete_session(sessions["gone"])
    gone = before - archived_files(tmp_path)
    assert gone == {f"{sessions['gone']}.md", f"c_{len(LONG)}"}
    assert {f"{sessions['left']}.md", f"c_{len(OTHER)}", f"c_{len(SHARED)}"} <= archived_files(tmp_path)


async def test_what_others_name_is_known_without_reading_their_archives(tmp_path: Path) -> None:
    sessions: dict[str, str] = {}
    for name, text_ in (("gone", LONG), ("left", OTHER)):
        async with agent_in(tmp_path, SQLITE_URL, recalled(text_, SHARED), EVICTING) as agent:
            sessions[name] = await talk(agent, f"{name} one")
            await play(agent, f"{name} two", sessions[name])
    before = archived_files(tmp_path)
    async with agent_in(tmp_path, SQLITE_URL, recalled(), EVICTING) as agent:
        await agent.archive(sessions["left"])
        unreadable = text("UPDATE checkpoint_archive SET rows = x'00'")
        await do(SQLITE_URL, tmp_path, lambda connection: connection.execute(unreadable))
        await agent.delete_session(sessions["gone"])
    assert before - archived_files(tmp_path) == {f"{sessions['gone']}.md", f"c_{len(LONG)}"}
    left = await do(
        SQLITE_URL, tmp_path, lambda c: c.execute(text("SELECT handle FROM original_handle")).all()
    )
    assert not any(f"c_{len(LONG)}" in handle for (handle,) in left), "its own notes go with a session"
    assert any(f"c_{len(SHARED)}" in handle for (handle,) in left)


async def test_an_archived_session_is_deleted_when_its_time_is_over(
    tmp_path: Path, database_url: str
) -> None:
    said = Counting()
    async with agent_in(tmp_path, database_url, said.model) as agent:
        old, new = await talk(agent, "one"), await talk(agent, "two")
        for each in (old, new):
            await agent.archive(each)
        await do(
            database_url,
            tmp_path,
            lambda c: c.execute(
                text(
                    "UPDATE checkpoint_archive SET archived_ms = 1"
                    " WHERE thread = (SELECT key FROM thread WHERE session = :old)"
                ),
                {"old": old},
            ),
        )
        retention = Retention(archived_max_age_days=30)
        assert (await agent.prune(retention, dry_run=True)).deleted == [old]
        done = await agent.prune(retention)
        assert (done.archived, done.deleted) == ([], [old])
        assert (await agent.prune(retention)).deleted == []
        async with log_of(database_url, tmp_path) as log:
            assert [each.session for each in await log.sessions(archived=True)] == [new]


async def test_an_expired_session_that_another_process_takes_keeps_no_other_from_going(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = Counting()
    async with agent_in(tmp_path, SQLITE_URL, said.model) as agent:
        taken, other = [await talk(agent, text) for text in ("one", "two")]
        for each in (taken, other):
            await agent.archive(each)
        aged = text("UPDATE checkpoint_archive SET archived_ms = 1")
        await do(SQLITE_URL, tmp_path, lambda c: c.execute(aged))

        async def lost(lifecycle: SessionLifecycle, thread: Thread) -> None:
            if thread.session == taken:
                raise claim_lost("the end", taken)
            await delete(lifecycle, thread)

        monkeypatch.setattr("zeus_runtime.sessions.retention.delete", lost)
        assert (await agent.prune(Retention(archived_max_age_days=30))).deleted == [other]


async def test_a_damaged_archive_is_named_and_left_as_it_is(tmp_path: Path, database_url: str) -> None:
    said = Counting()
    async with agent_in(tmp_path, database_url, said.model) as agent:
        session = await talk(agent, "one")
        await agent.archive(session)
        await do(
            database_url,
            tmp_path,
            lambda c: c.execute(text("UPDATE checkpoint_archive SET digest = 'other'")),
        )
        with pytest.raises(RunError, match="damaged: its digest"):
            await agent.restore(session)
        async with log_of(database_url, tmp_path) as log:
            assert len(await log.sessions(archived=True)) == 1


async def test_another_process_sees_the_newest_state_of_a_session(tmp_path: Path, database_url: str) -> None:
    said = Counting()
    async with (
        agent_in(tmp_path, database_url, said.model) as one,
        agent_in(tmp_path, database_url, said.model) as other,
    ):
        session = await talk(one, "one", "two")
        assert len(await other.history(session)) == 4
        await one.rollback(session, to=3)
        assert len(await other.history(session)) == 3
        assert (await ended(other, session)).answer == "answer 3"
        assert shape(await one.history(session))[-1] == ("ai", "answer 3")
        assert await one.latest_session() == session


async def test_snapshots_say_how_each_turn_began_and_ended(tmp_path: Path, database_url: str) -> None:
    gate = asyncio.Event()
    reached = asyncio.Event()

    async def hang() -> None:
        reached.set()
        await gate.wait()

    class Hanging(PositionModel):
        async def stream(self, request: ModelRequest) -> AsyncIterator[Any]:
            if request.messages[-1].content == "hang":
                await hang()
            async for piece in super().stream(request):
                yield piece

    def answer(request: ModelRequest) -> Answer:
        return RuntimeError("down") if request.messages[-1].content == "fail" else "fine"

    async with agent_in(tmp_path, database_url, Hanging(answer)) as agent:
        session = await talk(agent, "one")
        await play(agent, "fail", session)
        running = asyncio.create_task(play(agent, "hang", session))
        await reached.wait()
        assert [each.state for each in await agent.sessions()] == ["open"]
        assert agent.cancel(session)
        await running
        assert [each.state for each in await agent.sessions()] == ["interrupted"]
        await agent.rollback(session, to=1)
        async with log_of(database_url, tmp_path) as log:
            found = await snapshots(log, await log.find(session))
    assert [(each.number, each.at_seq, each.reason) for each in found] == [
        (1, 1, "turn-start"),
        (2, 2, "complete"),
        (3, 3, "turn-start"),
        (4, 3, "error"),
        (5, 4, "turn-start"),
        (6, 4, "interrupted"),
        (7, 4, "manual"),
    ]
    assert found[0].run_id == found[1].run_id != found[2].run_id


def test_the_longest_unused_sessions_are_due_first() -> None:
    used = [("d", 4 * DAY_MS), ("c", 3 * DAY_MS), ("b", 2 * DAY_MS), ("a", DAY_MS)]
    now = 4 * DAY_MS

    def names(**retention: Any) -> list[str]:
        return [name for name, _ in due(used, Retention(**retention), now)]

    assert names() == []
    assert names(max_age_days=2) == ["a"]
    assert names(max_age_days=1.5) == ["a", "b"]
    assert names(max_sessions=1) == ["a", "b", "c"]
    assert names(max_age_days=2.5, max_sessions=2) == ["a", "b"]


async def test_nothing_that_runs_is_pruned(tmp_path: Path, database_url: str) -> None:
    said = Counting()
    async with agent_in(tmp_path, database_url, said.model) as agent:
        running, idle, last = [await talk(agent, prompt) for prompt in ("one", "two", "three")]
        async with log_of(database_url, tmp_path) as log:
            give_back = await log.database.claim(running)
            retention = Retention(max_sessions=1)
            assert (await agent.prune(retention, dry_run=True)).archived == [running, idle]
            assert len(await agent.sessions()) == 3
            pruned = await agent.prune(retention)
            give_back()
        assert (pruned.archived, pruned.deleted, pruned.running) == ([idle], [], [running])
        assert [each.session for each in await agent.sessions()] == [last, running]
        pruned = await agent.prune(Retention(max_sessions=1, archive=False))
        assert pruned.deleted == [running]
        with pytest.raises(UsageError, match="no session"):
            await agent.restore(running)


async def test_a_session_that_was_archived_after_it_was_found_is_not_run(
    tmp_path: Path, database_url: str
) -> None:
    said = Counting()
    async with agent_in(tmp_path, database_url, said.model) as agent:
        session = await talk(agent, "one")
        async with log_of(database_url, tmp_path) as mine, log_of(database_url, tmp_path) as other:
            found = await mine.find(session)
            assert await archive(other, await other.find(session))
            give_back = await mine.database.claim(session)
            with pytest.raises(UsageError, match="archived"):
                await mine.read(found)
            give_back()
            await other.database.run(await removal(other, await other.find(session, archived=True)))
            await other.open("session_next", agent="a")
            give_back = await mine.database.claim(session)
            with pytest.raises(RunError, match="deleted meanwhile"):
                await mine.read(found)
            give_back()


async def test_the_retention_is_kept_at_the_end_of_a_run_once_a_day(
    tmp_path: Path, database_url: str
) -> None:
    said = Counting()

    async def age(session: str) -> None:
        await do(
            database_url,
            tmp_path,
            lambda c: c.execute(text(f"UPDATE thread SET updated_ms = 5 WHERE session = '{session}'")),
        )

    async with agent_in(tmp_path, database_url, said.model) as agent:
        old, others, older = await talk(agent, "one"), await talk(agent, "two"), await talk(agent, "three")
    for each in (old, others, older):
        await age(each)
    await do(
        database_url,
        tmp_path,
        lambda c: c.execute(text(f"UPDATE thread SET agent = 'other' WHERE session = '{others}'")),
    )
    keeping = "retention: {max_age_days: 1}\n"
    async with agent_in(tmp_path, database_url, said.model, keeping) as agent:
        await play(agent, "go on", old)
        assert {each.session for each in await agent.sessions()} == {old, others}
        await age(old)
        fresh = await talk(agent, "again")
        assert {each.session for each in await agent.sessions()} == {fresh, old, others}, "not twice a day"
        await do(
            database_url,
            tmp_path,
            lambda c: c.execute(text("UPDATE upkeep SET taken_ms = taken_ms - 86400000")),
        )
        await play(agent, "more", fresh)
        assert {each.session for each in await agent.sessions()} == {fresh, others}
        async with log_of(database_url, tmp_path) as log:
            assert {each.session for each in await log.sessions(archived=True)} == {old, older}


async def test_archiving_gives_the_room_back(tmp_path: Path) -> None:
    said = Counting()
    async with agent_in(tmp_path, SQLITE_URL, said.model) as agent:
        session = await talk(agent, "one")
        async with log_of(SQLITE_URL, tmp_path) as log:
            thread = await log.find(session)
            for seq in range(3, 603):
                await log.append(
                    thread, seq, f"x.{seq}", '{"role": "user", "content": "' + f"{seq} " * 1_000 + '"}'
                )
        await play(agent, "two", session)
        file = tmp_path / ".zeus" / "zeus.db"
        full = file.stat().st_size
        await agent.archive(session)
        packed = file.stat().st_size
        await agent.delete_session(session)
        empty = file.stat().st_size
    assert full > 2_000_000
    assert packed < full / 6
    assert empty < packed
    assert sum(each.stat().st_size for each in file.parent.glob("zeus.db*")) < full / 4


async def test_a_rollback_is_kept_in_order(tmp_path: Path, database_url: str) -> None:
    said = Counting()
    async with agent_in(tmp_path, database_url, said.model) as agent:
        session = await talk(agent, "one", "two")
        await agent.rollback(session, to=3)
        await agent.rollback(session, to=1)
        async with log_of(database_url, tmp_path) as log:
            made = await rollbacks(log, await log.find(session))
    assert [(each.number, each.kept_seq, each.last_seq) for each in made] == [(1, 3, 4), (2, 1, 4)]
