"""Half an emoji in JSON, which no parser takes: a question mark.

JavaScript servers send it when they cut a text in the middle of a surrogate pair.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final

import httpx2

from zeus_plugins.tools.mcp.failures import TalkError
from zeus_plugins.tools.mcp.sdk import MAX_MESSAGE_BYTES

if TYPE_CHECKING:
    from re import Match

_HEX: Final = rb"[0-9a-fA-F]"
_HIGH: Final = rb"[dD][89abAB]" + _HEX + rb"{2}"
_LOW: Final = rb"[dD][c-fC-F]" + _HEX + rb"{2}"
_ESCAPE: Final = re.compile(rb"\\(?:u" + _HIGH + rb"(?:\\u" + _LOW + rb")?|u" + _LOW + rb"|.)", re.DOTALL)
"""An escape as it must be read: what follows a backslash that is escaped itself is text."""
_LONE_BYTES: Final = len(rb"\ud83d")
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_UNFINISHED: Final = re.compile(
    rb"(?<!\\)(?:\\\\)*(\\(?:u(?:[dD]"
    + _HEX
    + rb"{0,2}|"
    + _HIGH
    + rb"(?:\\(?:u(?:[dD](?:[c-fC-F]"
    + _HEX
    + rb"?)?)?)?)?)?)?)\Z"
)
"""An escape at the end that the next piece may belong to."""
_JSON: Final = "application/json"
_EVENTS: Final = "text/event-stream"


def mended(text: bytes) -> bytes:
    """JSON with a question mark in place of each half of a surrogate pair that stands alone."""
    return _ESCAPE.sub(_whole, text) if _SURROGATE.search(text) else text


async def mend(response: httpx2.Response) -> None:
    """Let an answer's body be mended as it is read, piece by piece; a hook of an ``httpx2`` client.

    Who reads a body that is one message of more than ``MAX_MESSAGE_BYTES`` gets a TalkError; of events, which may go on
    for ever, the SDK looks at each.
    """
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in (_JSON, _EVENTS):
        return
    source = httpx2.Response(
        response.status_code, headers=response.headers, stream=response.stream, request=response.request
    )
    for header in ("content-encoding", "content-length"):
        response.headers.pop(header, None)
    response.stream = _Mended(source, MAX_MESSAGE_BYTES if kind == _JSON else None)


class _Mended(httpx2.AsyncByteStream):
    """The decoded bytes of an answer, mended.

    Args:
        most: bytes, before they are mended.
    """

    def __init__(self, source: httpx2.Response, most: int | None) -> None:
        self._source = source
        self._most = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        held, read = b"", 0
        async for piece in self._source.aiter_bytes():
            read += len(piece)
            if self._most is not None and read > self._most:
                raise TalkError(f"it wrote a message of more than {self._most // 1_000_000} MB")
            text = held + piece
            unfinished = _UNFINISHED.search(text)
            settled = len(text) if unfinished is None else unfinished.start(1)
            held = text[settled:]
            if settled:
                yield mended(text[:settled])
        if held:
            yield mended(held)

    async def aclose(self) -> None:
        await self._source.aclose()


def _whole(escape: Match[bytes]) -> bytes:
    return b"?" if len(escape[0]) == _LONE_BYTES else escape[0]
