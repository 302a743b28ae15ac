"""What the conformance suite does not ask of the bundled savers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.base import CheckpointMetadata, empty_checkpoint
from langgraph.checkpoint.serde import _msgpack
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from zeus_plugins.checkpointers.sqlite.saver import SqliteSaver

from tests.support.databases import execute
from zeus_runtime.errors import ZeusError


@dataclass
class Anything:
    word: str


PLACE = {"configurable": {"thread_id": "session_1", "checkpoint_ns": ""}}


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_tampered_checkpoint_makes_no_object_wherever_langgraph_was_imported_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setattr(_msgpack, "STRICT_MSGPACK_ENABLED", False)
    if kind == "sqlite":
        open_saver: Callable[..., Any] = partial(SqliteSaver, tmp_path / "checkpoints.db")
    else:
        open_saver = partial(postgres_saver(), request.getfixturevalue("postgres_url"))
    tampered = {**empty_checkpoint(), "channel_values": {"cursor": Anything("run me")}}
    tampered["channel_versions"] = {"cursor": "1"}
    forger = open_saver(serde=JsonPlusSerializer(allowed_msgpack_modules=True))
    place = PLACE
    try:
        if kind == "postgres":
            await forger.setup()
        await forger.aput(place, tampered, CheckpointMetadata(), {"cursor": "1"})
    finally:
        await forger.aclose()
    saver = open_saver()
    try:
        found = await saver.aget_tuple(place)  # type: ignore[arg-type]
    finally:
        await saver.aclose()
    assert found is not None
    assert found.checkpoint["channel_values"]["cursor"] == {"word": "run me"}


def postgres_saver() -> Any:
    from zeus_plugins.checkpointers.postgres.saver import PostgresSaver

    return PostgresSaver


OURS = "FROM pg_stat_activity WHERE application_name = 'zeus' AND datname = current_database()"


def cut(url: str) -> None:
    """End the server's side of every connection, and wait until it has."""
    execute(url, f"SELECT pg_terminate_backend(pid) {OURS}")
    while execute(url, f"SELECT 1 {OURS}"):
        time.sleep(0.002)


async def test_the_postgres_saver_opens_a_dropped_connection_again(postgres_url: str) -> None:
    saver = postgres_saver()(postgres_url)
    try:
        await saver.setup()
        for number in range(3):
            await saver.aput(PLACE, {**empty_checkpoint(), "id": str(number)}, CheckpointMetadata(), {})
            cut(postgres_url)
        assert [found.checkpoint["id"] async for found in saver.alist(PLACE)] == ["2", "1", "0"]
        await saver.aprune(["session_1"])
        assert [found.checkpoint["id"] async for found in saver.alist(PLACE)] == ["2"]
    finally:
        await saver.aclose()


async def test_only_threads_with_older_checkpoints_are_pruned(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

    prune, asked = AsyncPostgresSaver.aprune, []

    async def noted(saver: Any, threads: Any, **options: Any) -> None:
        asked.append(threads)
        await prune(saver, threads, **options)

    monkeypatch.setattr(AsyncPostgresSaver, "aprune", noted)
    saver = postgres_saver()(postgres_url)
    other = {"configurable": {"thread_id": "session_2", "checkpoint_ns": ""}}
    try:
        await saver.setup()
        for place, numbers in ((PLACE, "01"), (other, "0")):
            for number in numbers:
                await saver.aput(place, {**empty_checkpoint(), "id": number}, CheckpointMetadata(), {})
        await saver.aprune(["session_1", "session_2"])
        assert asked == [["session_1"]]
        for place, number in ((PLACE, "1"), (other, "0")):
            assert [found.checkpoint["id"] async for found in saver.alist(place)] == [number]
    finally:
        await saver.aclose()


async def test_a_cancelled_write_does_not_spoil_the_next(postgres_url: str) -> None:
    saver = postgres_saver()(postgres_url)
    try:
        await saver.setup()
        for steps in range(12):
            writing = asyncio.create_task(saver.aput(PLACE, empty_checkpoint(), CheckpointMetadata(), {}))
            for _ in range(steps):
                await asyncio.sleep(0)
            writing.cancel()
            await asyncio.wait([writing])
            last = empty_checkpoint()
            await saver.aput(PLACE, last, CheckpointMetadata(), {})
            found = await saver.aget_tuple(PLACE)
            assert found is not None
            assert found.checkpoint["id"] == last["id"]
    finally:
        await saver.aclose()


async def test_savers_that_start_together_find_their_tables(postgres_url: str) -> None:
    savers = [postgres_saver()(postgres_url) for _ in range(4)]
    try:
        await asyncio.gather(*(saver.setup() for saver in savers))
        await asyncio.gather(
            *(saver.aput(PLACE, empty_checkpoint(), CheckpointMetadata(), {}) for saver in savers)
        )
    finally:
        for saver in savers:
            await saver.aclose()


async def test_an_error_of_the_server_is_ours_without_the_password() -> None:
    saver = postgres_saver()("postgresql://zeus:hunter2secret@127.0.0.1:1/zeus")
    with pytest.raises(ZeusError, match="cannot be reached") as failed:
        await saver.setup()
    assert failed.value.exit_code == 4
    assert "hunter2secret" not in str(failed.value)
