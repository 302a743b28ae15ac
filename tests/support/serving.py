"""A service in the test's own event loop, on a real socket, with a scripted model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx
import uvicorn

from zeus_runtime.plan.validated import Checked, check
from zeus_runtime.serving.http.app import app_of
from zeus_runtime.serving.http.hosting import EditedConfig, HostedAgent, Hosting
from zeus_runtime.serving.http.hub import Hub
from zeus_runtime.serving.http.principals import LocalToken
from zeus_runtime.serving.http.protocols import ServedProtocol
from zeus_runtime.serving.http.server import ServiceServer
from zeus_runtime.serving.http.service import Service
from zeus_runtime.trust.decision import recorded_trust

TOKEN = "the-token-of-the-test"


def service_of(
    folder: Path,
    model: Any,
    configs: Sequence[str] = ("zeus.yaml",),
    environ: Mapping[str, str] = MappingProxyType({}),
    settings: str = "",
    served: str = "",
) -> Service:
    """A service of the configs in ``folder``, whose tools know of the file with its settings if there is one.

    Args:
        served: the folder whose configs it runs, if they are in one.
    """
    hub = Hub()

    def hosted(name: str) -> HostedAgent:
        def read(sets: Sequence[str], edited: EditedConfig | None = None, /) -> Checked:
            text, trust = (None, recorded_trust({}, "all")) if edited is None else edited
            checked = check(
                folder / name, sets=sets, directory=folder, environ=environ, trust=trust, text=text
            )
            files = [folder / settings] if settings else []
            folders = [folder / served] if served else []
            return checked.served_with(checked.document, files=files, folders=folders)

        return HostedAgent(read, hub.stored, model)

    return Service(Hosting([hosted(name) for name in configs]), LocalToken(TOKEN), hub)


@asynccontextmanager
async def serving(
    service: Service, token: str = TOKEN, protocols: Sequence[ServedProtocol] = (), prefix: str = ""
) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the service, while it runs."""
    config = uvicorn.Config(
        app_of(service, protocols, prefix=prefix), port=0, log_config=None, access_log=False
    )
    server = ServiceServer(config, service)
    task = asyncio.create_task(server.serve())
    while not server.started:
        assert not task.done(), task.exception()
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        async with httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}", headers={"Authorization": f"Bearer {token}"}, timeout=30
        ) as client:
            yield client
    finally:
        server.should_exit = True
        await task


async def told(
    client: httpx.AsyncClient, path: str, *, after: int = 0, most: int = 10_000
) -> list[dict[str, Any]]:
    """The events of a stream until it ends, or so many; each with its number as ``id``."""
    found: list[dict[str, Any]] = []
    async with client.stream("GET", path, headers={"Last-Event-ID": str(after)}) as answer:
        assert answer.status_code == 200, await answer.aread()
        number = 0
        async for line in answer.aiter_lines():
            if line.startswith("id: "):
                number = int(line[4:])
            elif line.startswith("data: "):
                found.append({"id": number, **json.loads(line[6:])})
                if len(found) == most:
                    break
    return found


async def begun(
    client: httpx.AsyncClient, prompt: str, session: str | None = None, **query: Any
) -> tuple[str, str]:
    """A turn that was begun: its session and its run."""
    if session is None:
        made = await client.post("/v1/sessions", json={})
        assert made.status_code == 201, made.text
        session = made.json()["session"]
    answer = await client.post(f"/v1/sessions/{session}/runs", json={"prompt": prompt}, params=query)
    assert answer.status_code == 202, answer.text
    return session, answer.json()["run"]


async def until(client: httpx.AsyncClient, run: str, *states: str) -> dict[str, Any]:
    """The turn, once it is in one of the states."""
    async with asyncio.timeout(20):
        while True:
            turn = (await client.get(f"/v1/runs/{run}")).json()
            if turn["state"] in states:
                return turn
            await asyncio.sleep(0.02)
