"""What is seen of the settings of the web tools: pages of a loopback server, and what a search is asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final
from unittest import mock

from tests.acceptance.settings import Flip, Scene, See
from tests.plugins_bundled.tools.web.test_web_fetch import PAGES, Server
from zeus_runtime.testing import calling

WEB: Final[dict[str, Any]] = {"tools": [{"web": {"allow_private": ["127.0.0.1:${PORT}"]}}]}
TAVILY: Final[dict[str, Any]] = {"tools": [{"web": {"search": {"tavily": {}}}}]}
DUCK: Final[dict[str, Any]] = {"tools": [{"web": {"search": {"duckduckgo": {}}}}]}


def fetched(path: str, find: str) -> See:
    """Whether what the model reads of a page holds ``find``."""

    async def see(scene: Scene) -> bool:
        with Server(PAGES).running() as server:
            scene.environ |= {"PORT": str(server.port)}
            played = await scene.play(calling(("web_fetch", {"url": f"{server.url}{path}"})), "done")
        return find in played.results[-1]

    return see


async def user_agent(scene: Scene) -> str:
    with Server(PAGES).running() as server:
        scene.environ |= {"PORT": str(server.port)}
        await scene.play(calling(("web_fetch", {"url": f"{server.url}/page"})), "done")
        return server.headers[-1]["User-Agent"]


async def problems(scene: Scene) -> tuple[str, ...]:
    return scene.problems()


async def _asked(scene: Scene, *, waits: float = 0) -> tuple[dict[str, Any], str]:
    """What Tavily's account would be asked, and what the model reads."""
    import httpcore

    given: dict[str, Any] = {}
    found = {"results": [{"title": f"T{n}", "url": f"https://{n}.example/"} for n in range(20)]}

    @asynccontextmanager
    async def stream(
        _pool: object, method: str, url: str, *, headers: Any, content: bytes
    ) -> AsyncIterator[httpcore.Response]:
        given.update(json.loads(content), method=method, url=url, key=dict(headers)["Authorization"])
        await asyncio.sleep(waits)
        yield httpcore.Response(200, content=json.dumps(found).encode())

    scene.environ |= {"TAVILY_API_KEY": "tvly-environment"}
    with mock.patch.object(httpcore.AsyncConnectionPool, "stream", stream):
        played = await scene.play(calling(("web_search", {"query": "tea"})), "done")
    return given, played.results[-1]


def tavily(name: str) -> See:
    async def see(scene: Scene) -> Any:
        return (await _asked(scene))[0][name]

    return see


async def impatient(scene: Scene) -> bool:
    return "did not answer" in (await _asked(scene, waits=0.2))[1]


async def results(scene: Scene) -> int:
    return (await _asked(scene))[1].count("https://")


def duckduckgo(name: str) -> See:
    """What DuckDuckGo is asked for."""

    async def see(scene: Scene) -> Any:
        from ddgs.http_client import HttpClient

        asked: dict[str, Any] = {}
        made = HttpClient.__init__

        def making(client: Any, *given: Any, **named: Any) -> None:
            asked.update(named)
            made(client, *given, **named)

        def asking(_client: object, *_given: Any, data: Mapping[str, str]) -> Any:
            asked.update(data)
            return mock.Mock(status_code=200, text="<p>No results.")

        with (
            mock.patch.object(HttpClient, "__init__", making),
            mock.patch.object(HttpClient, "request", asking),
        ):
            await scene.play(calling(("web_search", {"query": "tea"})), "done")
        return asked[name]

    return see


WEBBED: Final = (
    Flip("tool:web.search", "tavily", problems, (), ("missing",), {"tools": ["web"]}),
    Flip("tool:web.max_results", 3, results, 5, 3, TAVILY),
    Flip("tool:web.allow_hosts", ["a.example"], fetched("/page", "Two"), True, False, WEB),
    Flip("tool:web.deny_hosts", ["127.0.0.1"], fetched("/page", "Two"), True, False, WEB),
    Flip("tool:web.allow_private", ["127.0.0.0/8"], fetched("/page", "Two"), False, True, {"tools": ["web"]}),
    Flip("tool:web.timeout_seconds", 0.1, fetched("/late", "at last"), True, False, WEB),
    Flip("tool:web.max_bytes", 1_000, fetched("/large", "only its first 1,000 bytes"), False, True, WEB),
    Flip("tool:web.max_redirects", 0, fetched("/to-page", "Two"), True, False, WEB),
    Flip("tool:web.max_result_chars", 500, fetched("/large", "continue with start=500]"), False, True, WEB),
    Flip("tool:web.user_agent", "me/1", user_agent, "Mozilla/5.0 (compatible; zeus-runtime)", "me/1", WEB),
    Flip(
        "search:tavily.api_key",
        "tvly-own",
        tavily("key"),
        "Bearer tvly-environment",
        "Bearer tvly-own",
        TAVILY,
    ),
    Flip("search:tavily.depth", "advanced", tavily("search_depth"), "basic", "advanced", TAVILY),
    Flip("search:tavily.timeout_seconds", 0.05, impatient, False, True, TAVILY),
    Flip(
        "search:tavily.base_url",
        "http://search.example/v1/",
        tavily("url"),
        "https://api.tavily.com/search",
        "http://search.example/v1/search",
        TAVILY,
    ),
    Flip("search:duckduckgo.region", "de-de", duckduckgo("l"), "us-en", "de-de", DUCK),
    Flip("search:duckduckgo.safesearch", "off", duckduckgo("kp"), "-1", "-2", DUCK),
    Flip("search:duckduckgo.timeout_seconds", 7, duckduckgo("timeout"), 20, 7, DUCK),
)
