"""Two services on one database: what one does, the other tells its readers, and cancels what the first is asked to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.serving.test_open_streams import reading
from tests.support.agents import script, write_agent
from tests.support.databases import storage
from tests.support.serving import begun, service_of, serving, until
from zeus_runtime.events import RunFailed
from zeus_runtime.serving.http import service as service_module
from zeus_runtime.serving.http import streams


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "CHECK_SECONDS", 0.05)
    # What a reader hears of another service must not wait for the pause.
    monkeypatch.setattr(streams, "PING_SECONDS", 60)


async def test_a_reader_of_one_service_hears_of_the_others_turn_and_cancels_it(
    tmp_path: Path, database_url: str
) -> None:
    is_asked = asyncio.Event()

    class Slow:
        name = "slow"

        async def stream(self, request: Any) -> AsyncIterator[Any]:
            if "slow" in str(request.messages[-1].content):
                is_asked.set()
                await asyncio.sleep(60)
            async for piece in script("Done.", "Done.").stream(request):
                yield piece

    write_agent(tmp_path, storage(database_url))
    async with (
        serving(service_of(tmp_path, Slow())) as one,
        serving(service_of(tmp_path, script())) as other,
    ):
        session, run = await begun(one, "first")
        await until(one, run, "complete")
        task, lines = await reading(other, f"/v1/sessions/{session}/events")
        before = len(lines)
        _, run = await begun(one, "slow", session)
        await is_asked.wait()
        async with asyncio.timeout(20):
            while not any(f'"{run}"' in line for line in lines[before:]):  # noqa: ASYNC110 - a reader appends
                await asyncio.sleep(0.02)
        answer = await other.post(f"/v1/runs/{run}/cancel")
        assert answer.status_code == 202
        turn = await until(one, run, "cancelled")
        assert turn["ending"]["code"] == "cancelled"
        async with asyncio.timeout(20):
            while not any(f'"{RunFailed.type}"' in line for line in lines[before:]):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        task.cancel()
        _, run = await begun(one, "third", session)
        assert (await until(one, run, "complete", "cancelled"))["state"] == "complete"
