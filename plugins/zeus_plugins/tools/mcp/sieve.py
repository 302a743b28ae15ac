"""Take the tools that are no tools out of a server's list: the SDK refuses the whole list for one of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from zeus_plugins.tools.mcp.failures import unfit

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage

_LIST: Final = "tools/list"
_OLDEST: Final = "2025-11-25"
"""The version by which a list is judged before the server has named one."""
_MODERN: Final[Mapping[str, Any]] = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
"""What a list must have besides in the newest protocol; the older ones ignore it."""


class Sieve:
    """What passes of one connection's messages.

    Attributes:
        refused: the tools that were taken out of the last list, by name, each with the reason.
    """

    def __init__(self) -> None:
        self.refused: dict[str, str] = {}
        self._version = _OLDEST

    @asynccontextmanager
    async def over(self, transport: AbstractAsyncContextManager[Any]) -> AsyncIterator[Any]:
        """The transport's streams, what the server says sieved."""
        from zeus_plugins.tools.mcp.transports import passed_on

        async with transport as (read, write), passed_on(read, self.sieved) as received:
            yield received, write

    def sieved(self, heard: SessionMessage | Exception) -> Iterator[SessionMessage | Exception]:
        """The same message; of a list of tools those that can be read."""
        result = getattr(getattr(heard, "message", None), "result", None)
        if isinstance(result, dict):
            version = result.get("protocolVersion")
            if isinstance(version, str):
                self._version = version
            if isinstance(result.get("tools"), list) and "content" not in result:
                result["tools"] = self._readable(result["tools"])
        yield heard

    def _readable(self, tools: list[Any]) -> list[Any]:
        if self._why(tools) is None:
            return tools
        kept = []
        for number, tool in enumerate(tools, 1):
            why = self._why([tool])
            if why is None:
                kept.append(tool)
                continue
            name = tool.get("name") if isinstance(tool, dict) else None
            self.refused[name if isinstance(name, str) else f"number {number}"] = why
        return kept

    def _why(self, tools: list[Any]) -> str | None:
        """What is wrong with a list of tools."""
        from mcp_types.methods import validate_server_result
        from pydantic import ValidationError

        for version in dict.fromkeys((self._version, _OLDEST)):
            try:
                validate_server_result(_LIST, version, {**_MODERN, "tools": tools})
            except ValidationError as error:
                return unfit(error).removeprefix("tools.0.")
            except (KeyError, ValueError):  # a version that the SDK does not know: it says so itself
                continue
            return None
        return None
