"""Repair of JSON with lone surrogates, which parsers refuse: each one is replaced by a question mark.

JavaScript servers send lone surrogates if they cut a text in the middle of an emoji, which is a surrogate pair.
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
"""One whole escape, so that text after an escaped backslash is not taken for an escape."""
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
"""An escape at the end of a piece that the next piece may continue."""
_JSON: Final = "application/json"
_EVENTS: Final = "text/event-stream"


def mended(text: bytes) -> bytes:
    """JSON with each lone surrogate replaced by a question mark."""
    return _ESCAPE.sub(_whole, text) if _SURROGATE.search(text) else text


async def mend(response: httpx2.Response) -> None:
    """Repair an answer's body while it is read, piece by piece; a response hook for an ``httpx2`` client.

    Reading a JSON body of more than ``MAX_MESSAGE_BYTES`` raises a TalkError. A stream of events may be endless; there
    the SDK limits the size of each event.
    """
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in (_JSON, _EVENTS):
        return
    source = httpx2.Response(
        response.status_code, headers=response.headers, stream=response.stream, request=response.request
    )
    # The body is handed on decoded, and each repair shortens it.
    for header in ("content-encoding", "content-length"):
        response.headers.pop(header, None)
    response.stream = _Mended(source, MAX_MESSAGE_BYTES if kind == _JSON else None)


class _Mended(httpx2.AsyncByteStream):
    """The decoded bytes of an answer, repaired.

    Args:
        most: most bytes, counted before the repair; None for no limit.
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
            # A pair that a piece's end parts would be two lone surrogates.
            unfinished = _UNFINISHED.search(text)
            settled = len(text) if unfinished is None else unfinished.start(1)
            # At most 11 bytes: a high surrogate and a low one without its last digit, such as `\ud83d\udc0`.
            held = text[settled:]
            if settled:
                yield mended(text[:settled])
        if held:
            yield mended(held)

    async def aclose(self) -> None:
        await self._source.aclose()


def _whole(escape: Match[bytes]) -> bytes:
    return b"?" if len(escape[0]) == _LONE_BYTES else escape[0]
