"""Searches DuckDuckGo with the library ``ddgs``, which reads the pages made for browsers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from zeus_runtime.plugin import Doc, Minimum, MissingError, RunError
from zeus_runtime.plugin.search import SearchHit

if TYPE_CHECKING:
    from zeus_runtime.plugin import PlanContext


SafeSearch: TypeAlias = Literal["on", "moderate", "off"]


@dataclass(frozen=True)
class Options:
    """Options of ``duckduckgo``."""

    region: Annotated[str, Doc("Country and language, such as us-en, de-de or cn-zh.")] = "us-en"
    safesearch: Annotated[SafeSearch, Doc("Whether adult pages are left out.")] = "moderate"
    timeout_seconds: Annotated[int, Doc("How long one search may take."), Minimum(1)] = 20


class DuckDuckGoError(RunError):
    """The search failed or was refused."""

    code = "web_search"


class DuckDuckGo:
    """Searches DuckDuckGo.

    Args:
        options: the options from the YAML.
    """

    def __init__(self, options: Options) -> None:
        self._options = options

    async def search(self, query: str, *, max_results: int) -> Sequence[SearchHit]:
        import asyncio

        from ddgs.exceptions import DDGSException, RatelimitException, TimeoutException

        from zeus_plugins.searches.duckduckgo.engine import PageReader

        options = self._options

        def ask() -> Sequence[Any]:
            engine = PageReader(options.timeout_seconds, options.safesearch)
            return engine.search(query, region=options.region) or ()

        try:
            async with asyncio.timeout(options.timeout_seconds + 1):
                found = await asyncio.to_thread(ask)
        except RatelimitException:
            raise DuckDuckGoError(
                "DuckDuckGo refuses more searches for now", remedy="Wait a minute, or set TAVILY_API_KEY."
            ) from None
        except (TimeoutError, TimeoutException):
            raise DuckDuckGoError(f"the search took longer than {options.timeout_seconds} seconds") from None
        except DDGSException as error:
            raise DuckDuckGoError(f"the search failed: {error}") from None
        return [SearchHit(each.title, each.href, each.body) for each in found[:max_results]]


def create(options: Options, context: PlanContext) -> DuckDuckGo:
    """Create the search.

    Raises:
        MissingError: ``ddgs`` is not installed.
    """
    from importlib.util import find_spec

    if find_spec("ddgs") is None:
        raise MissingError(
            "the web search duckduckgo needs ddgs", remedy="Install it: pip install 'zeus-runtime[web]'"
        )
    return DuckDuckGo(options)
