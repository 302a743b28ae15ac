"""Searching with Tavily's HTTP API (https://docs.tavily.com, POST /search)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from zeus_runtime import Doc, Minimum, MissingError, RunError, SearchHit, Secret

if TYPE_CHECKING:
    from zeus_runtime import Build


@dataclass(frozen=True)
class Options:
    """Options of ``tavily``."""

    api_key: Annotated[Secret | None, Doc("The key; null: TAVILY_API_KEY.")] = None
    depth: Annotated[Literal["basic", "advanced"], Doc("advanced costs twice as much.")] = "basic"
    timeout_seconds: Annotated[float, Doc("How long one search may take."), Minimum(0.01)] = 20.0
    base_url: Annotated[str, Doc("Where the API is.")] = "https://api.tavily.com"


class TavilyError(RunError):
    """Tavily did not answer as it should."""

    code = "web_search"


class Tavily:
    """One account's searches.

    Args:
        options: as the YAML has them.
        key: the account's key.
    """

    def __init__(self, options: Options, key: str) -> None:
        self._options = options
        self._key = key

    async def search(self, query: str, *, max_results: int) -> Sequence[SearchHit]:
        import asyncio

        import httpcore

        options = self._options
        body = {"query": query, "max_results": max_results, "search_depth": options.depth}
        headers = [("Authorization", f"Bearer {self._key}"), ("Content-Type", "application/json")]
        try:
            async with asyncio.timeout(options.timeout_seconds), httpcore.AsyncConnectionPool() as pool:
                response = await pool.request(
                    "POST",
                    f"{options.base_url.rstrip('/')}/search",
                    headers=headers,
                    content=json.dumps(body).encode(),
                )
        except TimeoutError:
            raise TavilyError(f"Tavily did not answer within {options.timeout_seconds:g} seconds") from None
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException) as error:
            raise TavilyError(f"Tavily cannot be reached: {error}") from None
        if response.status in (401, 403):
            raise TavilyError("Tavily refuses the key", remedy="Correct TAVILY_API_KEY.")
        if response.status != 200:
            raise TavilyError(f"Tavily answers with status {response.status}")
        try:
            results = json.loads(response.content)["results"]
            return [
                SearchHit(str(each["title"]), str(each["url"]), str(each.get("content", "")))
                for each in results
            ]
        except (ValueError, KeyError, TypeError):
            raise TavilyError("Tavily's answer has no results in it") from None


def create(options: Options, build: Build) -> Tavily:
    """The search.

    Raises:
        MissingError: there is no key.
    """
    key = options.api_key.reveal() if options.api_key is not None else build.environ.get("TAVILY_API_KEY", "")
    if not key:
        raise MissingError(
            "the web search tavily needs a key, and TAVILY_API_KEY is not set",
            remedy="Set TAVILY_API_KEY in the environment or in .env, or write search: duckduckgo",
        )
    return Tavily(options, key)
