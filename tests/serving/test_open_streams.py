"""Streams end when their caller may not read on, and at once when the service stops."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import text

from tests.serving.test_http_keys import bearer, keyed, made
from tests.support.agents import script, write_agent
from tests.support.serving import begun, service_of, serving, until
from zeus_runtime.errors import RunError
from zeus_runtime.serving.http import service as service_module
from zeus_runtime.serving.http.open_streams import OpenStreams
from zeus_runtime.serving.http.principals import SCOPES, Principal, UnknownPrincipalError
from zeus_runtime.store.service_keys import revoke_key


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "CHECK_SECONDS", 0.05)


async def lines_of(client: httpx.AsyncClient, path: str, lines: list[str], **given: Any) -> None:
    async with client.stream("GET", path, **given) as answer:
        assert answer.status_code == 200
        async for line in answer.aiter_lines():
            lines.append(line)  # noqa: PERF401 - seen while the stream goes on


async def reading(client: httpx.AsyncClient, path: str, **given: Any) -> tuple[asyncio.Task[None], list[str]]:
    """A task that reads a stream, and the lines that it read; the first is there."""
    lines: list[str] = []
    task = asyncio.create_task(lines_of(client, path, lines, **given))
    async with asyncio.timeout(20):
        while not lines:
            assert not task.done(), task.exception()
            await asyncio.sleep(0.01)
    return task, lines


async def update(database: Any, statement: str) -> None:
    await database.run(lambda connection: connection.execute(text(statement)))


CHANGES = {
    "revoked": lambda database: revoke_key(database, "ann", 1),
    "expired": lambda database: update(database, "UPDATE service_key SET expires_ms = 1 WHERE name = 'ann'"),
    "narrowed": lambda database: update(
        database, "UPDATE service_key SET scopes = '[\"run\"]' WHERE name = 'ann'"
    ),
    "of fewer agents": lambda database: update(
        database, "UPDATE service_key SET agents = '[\"other\"]' WHERE name = 'ann'"
    ),
    "another user's": lambda database: update(
        database, "UPDATE service_key SET user_id = 'eve' WHERE name = 'ann'"
    ),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_the_stream_of_a_key_that_may_not_read_any_more_ends(tmp_path: Path, change: str) -> None:
    async with keyed(tmp_path) as (client, database):
        ann, bob = await made(database, "ann"), await made(database, "bob")
        streams = {}
        for name, key in (("ann", ann), ("bob", bob)):
            client.headers.update(bearer(key))
            session, run = await begun(client, "go")
            await until(client, run, "complete")
            path = f"/v1/sessions/{session}/events"
            streams[name] = await reading(client, path, headers=bearer(key))
        await CHANGES[change](database)
        task, lines = streams["ann"]
        async with asyncio.timeout(10):
            await task
        assert ": the key or token is not valid any more" in lines
        await asyncio.sleep(0.2)
        assert not streams["bob"][0].done()
        streams["bob"][0].cancel()


async def test_a_database_that_cannot_be_read_ends_no_stream() -> None:
    async def failing(_token: str) -> Principal:
        raise RunError("the disk is gone")

    streams = OpenStreams(failing)
    ended: list[bytes] = []

    class Stream:
        caller = Principal("ann", None, SCOPES, id="key:1")
        token = "x"

        def end(self, last: bytes) -> None:
            ended.append(last)

    streams.add(Stream())  # type: ignore[arg-type]
    with pytest.raises(RunError):
        await streams.check()
    assert ended == []


async def test_a_stream_that_ends_while_its_caller_is_looked_up_leaves_the_others() -> None:
    """Its time limit is over, and would refuse another time."""
    ended: list[str] = []

    class Stream:
        caller = Principal("ann", None, SCOPES, id="key:1")

        def __init__(self, token: str) -> None:
            self.token = token

        def end(self, _last: bytes) -> None:
            ended.append(self.token)

    first, second = Stream("first"), Stream("second")

    async def leaving(token: str) -> Principal:
        if token == "first":
            streams.remove(first)  # type: ignore[arg-type]
        raise UnknownPrincipalError("revoked")

    streams = OpenStreams(leaving)
    streams.add(first)  # type: ignore[arg-type]
    streams.add(second)  # type: ignore[arg-type]
    await streams.check()
    assert ended == ["second"]


async def test_a_service_that_stops_ends_its_streams_at_once_with_a_hint_and_leaves_the_turn(
    tmp_path: Path,
) -> None:
    is_asked = asyncio.Event()

    class Slow:
        name = "slow"

        async def stream(self, _request: Any) -> AsyncIterator[Any]:
            is_asked.set()
            await asyncio.sleep(60)
            yield None

    write_agent(tmp_path)
    service = service_of(tmp_path, Slow())
    async with serving(service) as client:
        session, run = await begun(client, "go")
        # A client of its own, which outlives the service.
        reader = httpx.AsyncClient(base_url=client.base_url, headers=client.headers, timeout=30)
        of_session = await reading(reader, f"/v1/sessions/{session}/events")
        of_run = await reading(reader, f"/v1/runs/{run}/events")
        await is_asked.wait()
        start = time.perf_counter()
    assert time.perf_counter() - start < 3, "uvicorn would wait for 10 s"
    for task, lines in (of_session, of_run):
        await task
        assert "retry: 1000" in lines
    await reader.aclose()
    again = service_of(tmp_path, script("Done."))
    async with serving(again) as client:
        assert (await until(client, run, "complete"))["state"] == "complete"
