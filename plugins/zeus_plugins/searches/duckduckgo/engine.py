"""Extends the library's reader of DuckDuckGo's pages: it distinguishes a refusal from a search without results."""

from __future__ import annotations

from typing import Any, Final

from ddgs.engines.duckduckgo import Duckduckgo
from ddgs.exceptions import DDGSException, RatelimitException

_SAFE: Final[dict[str, str]] = {"on": "1", "moderate": "-1", "off": "-2"}
"""DuckDuckGo's values (https://duckduckgo.com/duckduckgo-help-pages/settings/params, kp)."""
_REFUSALS: Final = (202, 403, 429)
_CHALLENGE: Final = "anomaly-modal"
"""A text in the page with DuckDuckGo's test for robots."""


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
        """Return the form fields with the safe search, which the library leaves out."""
        return {**super().build_payload(*given, **named), "kp": _SAFE[self._safe]}

    def request(self, *given: Any, **named: Any) -> str:
        """Return the page of results.

        Raises:
            RatelimitException: DuckDuckGo refuses because there were too many searches.
            DDGSException: the answer is not a page of results.
        """
        answer = self.http_client.request(*given, **named)
        page = str(answer.text)
        if answer.status_code in _REFUSALS or _CHALLENGE in page:
            raise RatelimitException(f"HTTP {answer.status_code}")
        if answer.status_code != 200 or not page.strip():
            raise DDGSException(f"HTTP {answer.status_code} without a page of results")
        return page
