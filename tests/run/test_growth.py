"""What a run leaves behind, and how it grows: checkpoints hold a cursor, the database holds the conversation."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from langchain_core.messages import AIMessage

from tests.support.agents import PositionModel, call, calling, script, write_agent
from zeus_runtime import Agent
from zeus_runtime.plugin.model import ModelRequest

MAX_CHECKPOINT_BYTES = 4096
STEPS = 190
TEXT = "All happy families are alike; each unhappy family is unhappy in its own way. " * 6


def long_talk(request: ModelRequest) -> AIMessage | str:
    step = sum(message.type == "ai" for message in request.messages)
    return calling(call("echo", f"call_{step}", text=TEXT), text=TEXT) if step < STEPS else "done"


def size_of(database: Path) -> int:
    """Bytes of a database and its write-ahead log."""
    return sum(file.stat().st_size for file in database.parent.iterdir() if not file.name.endswith("-shm"))


def sizes_in(database: Path) -> list[int]:
    """Bytes of the checkpoints in a database."""
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute("SELECT length(value) + length(metadata) FROM checkpoint")
        return [size for (size,) in rows]


async def test_a_checkpoint_stays_small_and_the_database_grows_with_the_conversation(tmp_path: Path) -> None:
    database = tmp_path / ".zeus" / "zeus.db"
    async with Agent.from_config(
        write_agent(tmp_path), directory=tmp_path, model=PositionModel(long_talk)
    ) as agent:
        await agent.sessions()
        tables = size_of(database)
        await agent.run("go")
        files = size_of(database)
    assert max(sizes_in(database)) <= MAX_CHECKPOINT_BYTES
    with closing(sqlite3.connect(database)) as connection:
        (messages,) = connection.execute("SELECT sum(length(payload)) FROM message").fetchone()
        (checkpoints,) = connection.execute("SELECT count(*) FROM checkpoint").fetchone()
        (writes,) = connection.execute("SELECT count(*) FROM checkpoint_write").fetchone()
        (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    assert messages > 2 * STEPS * len(TEXT)
    assert free == 0
    assert checkpoints == 1
    assert writes <= 4
    assert tables < 460_000
    assert files <= tables + 1.7 * messages


async def test_checkpoints_stay_small_with_many_parallel_calls(tmp_path: Path) -> None:
    calls = [call("echo", f"a_rather_long_call_identifier_{i}", text=TEXT) for i in range(24)]
    config = write_agent(tmp_path, "checkpointer: {sqlite: {path: checkpoints.db}}\n")

    def answer(request: ModelRequest) -> AIMessage | str:
        return calling(*calls) if len(request.messages) == 1 else "done"

    async with Agent.from_config(config, directory=tmp_path, model=PositionModel(answer)) as agent:
        await agent.run("go")
    assert max(sizes_in(tmp_path / "checkpoints.db")) <= MAX_CHECKPOINT_BYTES


async def test_messages_are_stored_once(tmp_path: Path) -> None:
    needle = "a sentence that stands nowhere else, 8f3a"
    model = script(calling(call("echo", "c", text="x"), text=needle), "done", "more")
    async with Agent.from_config(write_agent(tmp_path), directory=tmp_path, model=model) as agent:
        session = (await agent.run("go")).session
        await agent.run("again", session=session)
    content = b"".join(file.read_bytes() for file in (tmp_path / ".zeus").iterdir())
    assert content.count(needle.encode()) == 1
