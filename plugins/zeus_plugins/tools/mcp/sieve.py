"""Remove broken tools from a server's list: the SDK refuses the whole list for one of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
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
    """Looks at the messages of one connection.

    Attributes:
        refused: the tools that were taken out of the last list, by name, each with the reason.
    """

    def __init__(self) -> None:
        self.refused: dict[str, str] = {}
        self._version = _OLDEST

    @asynccontextmanager
    async def over(self, transport: AbstractAsyncContextManager[Any]) -> AsyncIterator[Any]:
        """The transport's streams, without broken tools."""
        async with transport as (read, write):
            yield _Sieved(read, self.look), write

    def look(self, heard: SessionMessage | Exception) -> None:
        """Take the tools that cannot be read out of a message, if it is a list of tools."""
        result = getattr(getattr(heard, "message", None), "result", None)
        if isinstance(result, dict):
            version = result.get("protocolVersion")
            if isinstance(version, str):
                self._version = version
            if isinstance(result.get("tools"), list) and "content" not in result:
                result["tools"] = self._readable(result["tools"])

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


class _Sieved:
    """A stream of messages that are looked at as they are received.

    Not a stream between two others: the SDK asks the stream itself which call a message came with (``last_context``).

    Args:
        inner: the transport's.
        look: called with each message.
    """

    def __init__(self, inner: Any, look: Callable[[Any], None]) -> None:
        self._inner = inner
        self._look = look

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def receive(self) -> Any:
        heard = await self._inner.receive()
        self._look(heard)
        return heard

    def __aiter__(self) -> _Sieved:
        return self

    async def __anext__(self) -> Any:
        heard = await self._inner.__anext__()
        self._look(heard)
        return heard

    async def __aenter__(self) -> _Sieved:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> bool | None:
        ended: bool | None = await self._inner.__aexit__(*error)
        return ended
