"""The library's reader of DuckDuckGo's pages, which tells a refusal from a search that finds nothing."""

from __future__ import annotations

from typing import Any, Final

from ddgs.engines.duckduckgo import Duckduckgo
from ddgs.exceptions import DDGSException, RatelimitException

_SAFE: Final[dict[str, str]] = {"on": "1", "moderate": "-1", "off": "-2"}
"""What DuckDuckGo calls them (https://duckduckgo.com/duckduckgo-help-pages/settings/params, kp)."""
_REFUSALS: Final = (202, 403, 429)
_CHALLENGE: Final = "anomaly-modal"
"""In the page that asks whether one is a robot."""


class PageReader(Duckduckgo):
    """One search.

    Args:
        timeout: seconds.
        safe: `on`, `moderate` or `off`: whether adult pages are left out.
    """

    def __init__(self, timeout: int, safe: str) -> None:
        super().__init__(timeout=timeout)
        self._safe = safe

    def build_payload(self, *given: Any, **named: Any) -> dict[str, Any]:
        """What is asked; the library leaves the safe search out."""
        return {**super().build_payload(*given, **named), "kp": _SAFE[self._safe]}

    def request(self, *given: Any, **named: Any) -> str:
        """The page of results.

        Raises:
            RatelimitException: there is none, since too much was asked.
            DDGSException: there is none.
        """
        answer = self.http_client.request(*given, **named)
        page = str(answer.text)
        if answer.status_code in _REFUSALS or _CHALLENGE in page:
            raise RatelimitException(f"HTTP {answer.status_code}")
        if answer.status_code != 200 or not page.strip():
            raise DDGSException(f"HTTP {answer.status_code} without a page of results")
        return page
