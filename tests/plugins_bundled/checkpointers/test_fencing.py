"""What a process that lost its session writes late leaves no checkpoint behind."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from langchain_core.messages import AIMessage
from langgraph.checkpoint.base import CheckpointMetadata, empty_checkpoint
from zeus_plugins.checkpointers.sqlite.saver import SqliteSaver

from tests.support.agents import PositionModel, call, calling, play, write_agent
from tests.support.databases import SQLITE_URL
from tests.support.logs import log_of
from zeus_runtime import Agent, ModelRequest
from zeus_runtime.events import RunFailed
from zeus_runtime.store.claims import EPOCH, LogConflictError

SESSION = "session_1"


@asynccontextmanager
async def saver_of(folder: Path) -> AsyncIterator[SqliteSaver]:
    """The saver that has its checkpoints beside the log."""
    saver = SqliteSaver(folder / ".zeus/zeus.db", beside_log=True)
    try:
        yield saver
    finally:
        await saver.aclose()


def rows(folder: Path) -> int:
    """How many rows of checkpoints there are, of whatever kind."""
    with sqlite3.connect(folder / ".zeus/zeus.db") as connection:
        return sum(
            int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
            for table in ("checkpoint", "checkpoint_write")
        )


async def write_all(saver: SqliteSaver, epoch: int | None) -> list[str]:
    """Try every kind of write in an epoch; what became of each."""
    place = {"configurable": {"thread_id": SESSION, "checkpoint_ns": "", EPOCH: epoch}}
    checkpoint = {**empty_checkpoint(), "id": "1"}
    there = {"configurable": {**place["configurable"], "checkpoint_id": checkpoint["id"]}}
    said = []
    for work in (
        saver.aput(place, checkpoint, CheckpointMetadata(), {}),
        saver.aput_writes(there, [("cursor", 2), ("tasks", ["x"])], "task"),
        saver.aput_writes(there, [("__error__", "broken")], "task"),
    ):
        try:
            await work
            said.append("written")
        except LogConflictError as error:
            said.append("refused" if "has taken the session" in error.message else error.message)
    return said


async def test_a_checkpoint_is_written_in_the_epoch_of_its_claim_or_not_at_all(tmp_path: Path) -> None:
    async with log_of(SQLITE_URL, tmp_path) as (database, log), saver_of(tmp_path) as saver:
        thread = await log.open(SESSION, agent="a")
        give_back = await database.claim(SESSION)
        await log.append(thread, 1, "a.1", "{}")
        epoch = database.epoch(SESSION)
        assert await write_all(saver, epoch) == ["written"] * 3
        assert await write_all(saver, epoch) == ["written"] * 3, "what is there already is no conflict"
        give_back()
        await database.claim(SESSION)
        await log.append(thread, 2, "b.2", "{}")
        await saver.adelete_thread(SESSION)
        assert await write_all(saver, epoch) == ["refused"] * 3
        assert rows(tmp_path) == 0
        assert await write_all(saver, database.epoch(SESSION)) == ["written"] * 3


async def test_without_a_claim_nothing_is_refused(tmp_path: Path) -> None:
    async with log_of(SQLITE_URL, tmp_path), saver_of(tmp_path) as saver:
        assert await write_all(saver, None) == ["written"] * 3


def delete_elsewhere(folder: Path) -> None:
    """What another process does that has the session now: it deletes it."""
    with sqlite3.connect(folder / ".zeus/zeus.db") as connection:
        connection.execute("PRAGMA foreign_keys=ON")
        for table in ("checkpoint", "checkpoint_write", "thread"):
            connection.execute(f"DELETE FROM {table}")


async def test_a_run_whose_session_is_deleted_elsewhere_leaves_no_row_behind(tmp_path: Path) -> None:
    def answer(_request: ModelRequest) -> AIMessage:
        assert rows(tmp_path) > 0, "the step before was kept"
        delete_elsewhere(tmp_path)
        return calling(call("echo", "c1", text="x"))

    config = write_agent(tmp_path)
    async with Agent.from_config(config, directory=tmp_path, model=PositionModel(answer)) as agent:
        ending = (await play(agent, "go"))[-1]
    assert isinstance(ending, RunFailed)
    assert ending.code == "session_conflict"
    assert rows(tmp_path) == 0
