"""A service under a path of a proxy: page, cookie, API, streams and protocols, whether the proxy removes it or not."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from tests.support.agents import script, write_agent
from tests.support.proxy import NGINX, nginx, stripping
from tests.support.serving import TOKEN, begun, service_of, serving, told
from zeus_runtime.config.ref import Ref
from zeus_runtime.errors import UsageError
from zeus_runtime.registry import discover
from zeus_runtime.serving.http.app import app_of
from zeus_runtime.serving.http.protocols import protocols_of

needs_nginx = pytest.mark.skipif(NGINX is None, reason="nginx is not installed")


@pytest.mark.parametrize("kind", ["removes", pytest.param("leaves", marks=needs_nginx)])
async def test_everything_works_under_a_path(tmp_path: Path, kind: str) -> None:
    write_agent(tmp_path)
    service = service_of(tmp_path, script("One.", "Two.", "Three."))
    protocols = protocols_of(discover(environ={}), [Ref("openai"), Ref("mcp")], service)
    async with serving(service, protocols=protocols, prefix="/zeus") as inner:
        port = inner.base_url.port
        assert port is not None
        folder = tmp_path / "proxy"
        folder.mkdir()
        proxy = stripping("/zeus", port) if kind == "removes" else nginx(folder, port)
        with proxy as address:
            bearer = {"Authorization": f"Bearer {TOKEN}"}
            async with httpx.AsyncClient(base_url=f"{address}/zeus", headers=bearer, timeout=30) as client:
                session, run = await begun(client, "go")
                events = await told(client, f"/v1/runs/{run}/events")
                assert events[-1]["type"] == "complete"
                assert (await client.get("/openapi.json")).json()["servers"] == [{"url": "/zeus"}]
                asked = {"model": "tested", "messages": [{"role": "user", "content": "hi"}]}
                name = (await client.get("/v1/models")).json()["data"][0]["id"]
                chat = await client.post("/v1/chat/completions", json={**asked, "model": name})
                assert chat.json()["choices"][0]["message"]["content"] == "One."
                hello = {
                    "protocolVersion": "2025-06-18",
                    "capabilities": {},
                    "clientInfo": {"name": "t", "version": "1"},
                }
                accept = {"Accept": "application/json, text/event-stream"}
                begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
                answer = await client.post("/mcp", json=begin, headers=accept)
                assert answer.status_code == 200, answer.text
                assert '"serverInfo"' in answer.text
            async with httpx.AsyncClient(base_url=f"{address}/zeus", timeout=30) as browser:
                login = await browser.get("/", params={"token": TOKEN})
                assert (login.status_code, login.headers["location"]) == (303, ".")
                (cookie,) = browser.cookies.jar
                assert cookie.path == "/zeus"
                turn = await browser.get(f"/v1/runs/{run}")
                assert turn.json()["session"] == session
                page = {"X-Zeus-Page": "1", "Origin": address}
                made = await browser.post("/v1/sessions", json={}, headers=page)
                assert made.status_code == 201, made.text
                assert (await browser.post("/logout", headers=page)).status_code == 204
                assert not browser.cookies
        routes = {
            json.dumps(each) for each in service.metrics.text().decode().splitlines() if "/zeus" in each
        }
        assert not routes, "the figures name routes without the prefix"


@pytest.mark.parametrize("prefix", ["/v1", "/page/x", "/health"])
def test_a_prefix_that_is_a_path_of_the_service_is_refused(tmp_path: Path, prefix: str) -> None:
    write_agent(tmp_path)
    with pytest.raises(UsageError, match="paths that begin"):
        app_of(service_of(tmp_path, script("x")), prefix=prefix)
