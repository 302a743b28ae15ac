"""Searches with Tavily's HTTP API (https://docs.tavily.com, POST /search)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal
from urllib.parse import urlsplit

from zeus_runtime.plugin import (
    Destination,
    Doc,
    Minimum,
    MissingError,
    OptionsError,
    Pattern,
    RunError,
    Secret,
    cut_text,
)
from zeus_runtime.plugin.search import SearchHit

if TYPE_CHECKING:
    from zeus_runtime.plugin import PlanContext


_MAX_BYTES: Final = 5_000_000
_REFUSALS: Final = {
    429: ("Tavily refuses more searches for now", "Wait a minute."),
    432: (
        "Tavily refuses: the searches of the plan or the key are used up",
        "Check the plan of your account.",
    ),
    433: ("Tavily refuses: the spending limit is reached", "Check the plan of your account."),
}


@dataclass(frozen=True)
class Options:
    """Options of ``tavily``."""

    api_key: Annotated[Secret | None, Doc("The key; null: TAVILY_API_KEY.")] = None
    depth: Annotated[Literal["basic", "advanced"], Doc("advanced costs twice as much.")] = "basic"
    timeout_seconds: Annotated[float, Doc("How long one search may take."), Minimum(0.01)] = 20.0
    base_url: Annotated[str, Destination(), Pattern(r"^https?://[^/\s]"), Doc("URL of the API.")] = (
        "https://api.tavily.com"
    )

    def default_keys(self) -> Sequence[str]:
        """Return the variable whose key a search carries."""
        return () if self.api_key is not None else ("TAVILY_API_KEY",)


class TavilyError(RunError):
    """The search failed or was refused."""

    code = "web_search"


class Tavily:
    """Searches with one account.

    Args:
        options: the options from the YAML.
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
            async with (
                asyncio.timeout(options.timeout_seconds),
                httpcore.AsyncConnectionPool() as pool,
                pool.stream(
                    "POST",
                    f"{options.base_url.rstrip('/')}/search",
                    headers=headers,
                    content=json.dumps(body).encode(),
                ) as response,
            ):
                content = bytearray()
                async for piece in response.aiter_stream():
                    content += piece
                    if len(content) > _MAX_BYTES:
                        raise TavilyError(f"Tavily answers with more than {_MAX_BYTES:,} bytes")
        except TimeoutError:
            raise TavilyError(f"Tavily did not answer within {options.timeout_seconds:g} seconds") from None
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException) as error:
            raise TavilyError(f"Tavily cannot be reached: {error}") from None
        answer = _json(bytes(content))
        if response.status in (401, 403):
            raise TavilyError("Tavily refuses the key", remedy="Correct TAVILY_API_KEY.")
        if response.status in _REFUSALS:
            message, remedy = _REFUSALS[response.status]
            raise TavilyError(message, remedy=remedy)
        if response.status != 200:
            raise TavilyError(f"Tavily answers with status {response.status}{_why(answer)}")
        try:
            return [
                SearchHit(str(each["title"] or ""), str(each["url"] or ""), str(each.get("content") or ""))
                for each in answer["results"]
            ]
        except (KeyError, TypeError, AttributeError):
            raise TavilyError("Tavily's answer contains no results") from None


def _json(content: bytes) -> Any:
    """Parse an answer; None if it is not valid JSON."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def _why(answer: Any) -> str:
    """Return the reason that Tavily gives for a refusal."""
    try:
        return f": {cut_text(str(answer['detail']['error']), 300)}"
    except (KeyError, TypeError):
        return ""


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0 and url.isascii() and url.isprintable()
    except ValueError:
        return False


def create(options: Options, context: PlanContext) -> Tavily:
    """Create the search.

    Raises:
        MissingError: the key is missing, or has characters that no key has.
        OptionsError: ``base_url`` is not an address.
    """
    if not _is_address(options.base_url):
        raise OptionsError(
            f"{options.base_url!r} is not an address",
            remedy="write it as https://api.tavily.com, or remove it",
            where="base_url",
        )
    given = (
        options.api_key.reveal() if options.api_key is not None else context.environ.get("TAVILY_API_KEY", "")
    )
    key = given.strip()
    if not (key.isascii() and key.isprintable()):
        raise MissingError(
            "the key of the web search tavily has characters that no key has", remedy="Copy it once more."
        )
    if not key:
        raise MissingError(
            "the web search tavily needs a key, and TAVILY_API_KEY is not set",
            remedy="Set TAVILY_API_KEY in the environment or in .env, or write search: duckduckgo",
        )
    return Tavily(options, key)
