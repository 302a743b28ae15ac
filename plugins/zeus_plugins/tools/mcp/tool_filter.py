"""A filter that removes broken tools from a server's list; the SDK would refuse the whole list because of one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from zeus_plugins.tools.mcp.failures import unfit

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage

_LIST: Final = "tools/list"
_OLDEST: Final = "2025-11-25"
"""The protocol version by which a list is validated until the server has named its own."""
_MODERN: Final[Mapping[str, Any]] = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
"""Further fields that the newest protocol requires in a list; the older versions ignore them."""


class ToolFilter:
    """A filter for the messages of one connection.

    Attributes:
        refused: the tools that were removed from the last list: name to reason.
    """

    def __init__(self) -> None:
        self.refused: dict[str, str] = {}
        self._version = _OLDEST

    @asynccontextmanager
    async def over(self, transport: AbstractAsyncContextManager[Any]) -> AsyncIterator[Any]:
        """The transport's streams, with broken tools removed from lists."""
        async with transport as (read, write):
            yield _Sieved(read, self.look), write

    def look(self, heard: SessionMessage | Exception) -> None:
        """Remove unreadable tools from a message, if it is a list of tools."""
        result = getattr(getattr(heard, "message", None), "result", None)
        if isinstance(result, dict):
            version = result.get("protocolVersion")
            if isinstance(version, str):
                self._version = version
            # The result of a call may have `tools` too, and always has `content`.
            if isinstance(result.get("tools"), list) and "content" not in result:
                result["tools"] = self._readable(result["tools"])

    def _readable(self, tools: list[Any]) -> list[Any]:
        # All at once first: most lists are valid, and one check is cheaper than one for each tool.
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
        """The problem of a list of tools; None if it is valid."""
        from mcp_types.methods import validate_server_result
        from pydantic import ValidationError

        for version in dict.fromkeys((self._version, _OLDEST)):
            try:
                validate_server_result(_LIST, version, {**_MODERN, "tools": tools})
            except ValidationError as error:
                return unfit(error).removeprefix("tools.0.")
            except (
                KeyError,
                ValueError,
            ):  # a version that the SDK does not know, which the SDK reports itself
                continue
            return None
        return None


class _Sieved:
    """A wrapper of a stream that passes each message to ``look`` as it is received.

    It wraps the transport's stream instead of copying messages into a new one, because the SDK reads from the stream
    itself which call a message came with (``last_context``).

    Args:
        inner: the transport's stream.
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
