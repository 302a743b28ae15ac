"""A service under a path of a proxy: page, cookie, API, streams and protocols, whether the proxy removes it or not."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator
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
from zeus_runtime.serving.http.settings import ServiceLimits, Settings

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


async def test_a_body_has_the_limit_of_its_route_behind_a_proxy_too(tmp_path: Path) -> None:
    write_agent(tmp_path)
    service = service_of(tmp_path, script("x"))
    service.settings = Settings(limits=ServiceLimits(body_bytes=1000, file_bytes=5000))
    data, large = b"x" * 4000, b"x" * 5001

    async def pieces(whole: bytes) -> AsyncIterator[bytes]:
        for start in range(0, len(whole), 700):
            yield whole[start : start + 700]

    async with serving(service, prefix="/zeus") as inner:
        assert inner.base_url.port is not None
        with stripping("/zeus", inner.base_url.port) as address:
            # The proxy takes the prefix off; asked directly, the service sees it.
            for base in (f"{address}/zeus", f"{inner.base_url}/zeus"):
                headers = {"Authorization": f"Bearer {TOKEN}"}
                async with httpx.AsyncClient(base_url=base, headers=headers, timeout=30) as client:
                    digest, other = (hashlib.sha256(each).hexdigest() for each in (data, large))
                    kept = await client.put(f"/v1/files/{digest}", content=data)
                    assert kept.status_code in (200, 201), kept.text
                    for content in (large, pieces(large)):
                        refused = await client.put(f"/v1/files/{other}", content=content)
                        assert (refused.status_code, refused.json()["code"]) == (413, "too_large")
                    for content in (b'{"title": "%s"}' % data[:1000], pieces(data)):
                        refused = await client.post(
                            "/v1/sessions", content=content, headers={"Content-Type": "application/json"}
                        )
                        assert (refused.status_code, refused.json()["code"]) == (413, "too_large")


@pytest.mark.parametrize("prefix", ["/v1", "/page/x", "/health"])
def test_a_prefix_that_is_a_path_of_the_service_is_refused(tmp_path: Path, prefix: str) -> None:
    write_agent(tmp_path)
    with pytest.raises(UsageError, match="paths that begin"):
        app_of(service_of(tmp_path, script("x")), prefix=prefix)
