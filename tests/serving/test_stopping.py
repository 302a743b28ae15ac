"""A service that is told to stop while clients wait for answers: they learn of it at once, and the turns go on."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from openai import APIError, AsyncOpenAI

from tests.support.scripted_service import TOKEN, ScriptedService

pytestmark = pytest.mark.xdist_group("stopping")
PROMPT = "count slowly"
"""So slowly that on a busy machine the first turn runs when the last one begins."""
"""Its answer takes more than a second."""


async def chat(client: AsyncOpenAI) -> Any:
    return await client.chat.completions.create(model="test", messages=[{"role": "user", "content": PROMPT}])


async def chat_streamed(client: AsyncOpenAI) -> Any:
    messages: Any = [{"role": "user", "content": PROMPT}]
    return [
        each
        async for each in await client.chat.completions.create(model="test", messages=messages, stream=True)
    ]


async def response(client: AsyncOpenAI) -> Any:
    return await client.responses.create(model="test", input=PROMPT)


async def response_streamed(client: AsyncOpenAI) -> Any:
    return [each async for each in await client.responses.create(model="test", input=PROMPT, stream=True)]


OPENAI: dict[str, Callable[[AsyncOpenAI], Awaitable[Any]]] = {
    each.__name__: each for each in (chat, chat_streamed, response, response_streamed)
}


async def mcp_call(url: str, mode: Any) -> Any:
    answer: Any = None
    try:
        async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}, timeout=30) as http:
            transport = streamable_http_client(f"{url}/mcp", http_client=http)
            async with Client(transport, mode=mode) as client:
                answer = await client.call_tool("test", {"prompt": PROMPT})
    except ExceptionGroup:
        # The client says goodbye to a service that may be gone by now; only its answer matters here.
        if answer is None:
            raise
    return answer


@pytest.fixture
async def native(tmp_path: Path) -> AsyncIterator[tuple[ScriptedService, httpx.AsyncClient]]:
    service = ScriptedService(tmp_path, "--protocol", "openai", "--protocol", "mcp")
    await asyncio.to_thread(service.start)
    head = {"Authorization": f"Bearer {TOKEN}"}
    async with httpx.AsyncClient(base_url=service.url, headers=head, timeout=30) as client:
        yield service, client
    await asyncio.to_thread(service.kill)


async def turns(client: httpx.AsyncClient) -> list[dict[str, Any]]:
    sessions = [each["session"] for each in (await client.get("/v1/sessions")).json()]
    return [run for each in sessions for run in (await client.get(f"/v1/sessions/{each}/runs")).json()]


async def until_all(client: httpx.AsyncClient, number: int, state: str) -> list[dict[str, Any]]:
    async with asyncio.timeout(30):
        while True:
            found = await turns(client)
            if len(found) == number and {each["state"] for each in found} == {state}:
                return found
            await asyncio.sleep(0.05)


@pytest.mark.slow  # a real process, started twice
async def test_clients_that_wait_get_their_protocols_error_and_the_next_process_ends_the_turns(
    native: tuple[ScriptedService, httpx.AsyncClient],
) -> None:
    service, client = native
    openai = AsyncOpenAI(base_url=f"{service.url}/v1", api_key=TOKEN)
    waiting: dict[str, asyncio.Task[Any]] = {
        name: asyncio.create_task(ask(openai))
        for name, ask in OPENAI.items()  # type: ignore[arg-type]
    }
    for mode in ("legacy", "2026-07-28"):
        waiting[mode] = asyncio.create_task(mcp_call(service.url, mode))
    before = await until_all(client, len(waiting), "running")
    await asyncio.to_thread(service.kill, signal.SIGTERM)
    answers = dict(zip(waiting, await asyncio.gather(*waiting.values(), return_exceptions=True), strict=True))
    await asyncio.to_thread(service.start)
    after = await until_all(client, len(waiting), "complete")
    await openai.close()
    log = (service.folder / "serve.log").read_text()
    assert "graceful shutdown exceeded" not in log, "uvicorn waits 10 s for requests"
    for name in OPENAI:
        error = answers[name]
        assert isinstance(error, APIError), (name, error)
        assert error.code == "stopping", (name, error)
        assert any(each["run"] in error.message for each in before), (
            "the client can ask the next process for it"
        )
    for name in ("chat", "response"):
        assert answers[name].response.status_code == 503  # type: ignore[union-attr]
        assert answers[name].response.headers["x-should-retry"] == "false", (
            "a repeated prompt is a second turn"
        )  # type: ignore[union-attr]
    for mode in ("legacy", "2026-07-28"):
        if isinstance(answers[mode], BaseException):
            raise answers[mode]  # type: ignore[misc]
        assert answers[mode].is_error, answers[mode]  # type: ignore[union-attr]
        assert "the service stops" in answers[mode].content[0].text  # type: ignore[union-attr]
    assert {each["run"] for each in after} == {each["run"] for each in before}, "none began twice"
    assert all(each["ending"]["answer"].endswith("59") for each in after)


@pytest.mark.slow  # a real process, started twice
async def test_a_backtest_of_a_killed_process_is_told_as_lost_and_begins_again(
    native: tuple[ScriptedService, httpx.AsyncClient],
) -> None:
    service, client = native
    session = (await client.post("/v1/sessions", json={})).json()["session"]
    await client.post(f"/v1/sessions/{session}/runs", json={"prompt": "hello"})
    await until_all(client, 1, "complete")
    policies = {f"p{number}": "[]" for number in range(5)}
    body, key = {"sessions": [session], "policies": policies}, {"Idempotency-Key": "weekly"}
    for number in (signal.SIGKILL, signal.SIGTERM):
        first = (await client.post("/v1/backtests", json=body, headers=key)).json()
        assert first["state"] == "running"
        await asyncio.to_thread(service.kill, number)
        await asyncio.to_thread(service.start)
        for method, path in (("GET", ""), ("POST", "/cancel")):
            lost = await client.request(method, f"/v1/backtests/{first['id']}{path}")
            assert lost.status_code == 404, lost.text
            assert "process that ran it has ended" in lost.json()["detail"]
            assert "Begin it again" in lost.json()["remedy"]
        assert (await client.get("/v1/backtests")).json() == []
        assert not list(service.folder.rglob("*backtest*")), "no lock is left"
    again = (await client.post("/v1/backtests", json=body, headers=key)).json()
    assert again["id"] != first["id"]
    async with asyncio.timeout(30):
        while (told := (await client.get(f"/v1/backtests/{again['id']}")).json())["state"] == "running":  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert (told["state"], told["done"]) == ("complete", 6)
    await asyncio.to_thread(service.kill)
    await asyncio.to_thread(service.start)
    assert (await client.get(f"/v1/backtests/{again['id']}")).json() == told
    same = await client.post("/v1/backtests", json=body, headers=key)
    assert same.json() == told
    absent = await client.get(f"/v1/backtests/{again['id']}0")
    assert "GET /v1/backtests" in absent.json()["remedy"]
