"""JSON that a terminal may show."""

from __future__ import annotations

import codecs
import json
from typing import TYPE_CHECKING, Any

from fastapi.responses import JSONResponse
from starlette.datastructures import Headers, MutableHeaders

from zeus_runtime.escaping import json_text

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


class VisibleJSON(JSONResponse):
    """A JSON response whose unseen characters are escapes: ``curl`` prints what it gets."""

    def render(self, content: Any) -> bytes:
        """The same value as any JSON of it."""
        text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return json_text(text).encode()


class VisibleBodies:
    """An app whose JSON answers and event streams have escapes for unseen characters, whatever writes them.

    Args:
        app: answers in UTF-8.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, _VisibleSend(send) if scope["type"] == "http" else send)


class _VisibleSend:
    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message | None = None
        self._body = b""
        self._decoder: codecs.IncrementalDecoder | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = Headers(raw=message["headers"])
            kind = headers.get("content-type", "").partition(";")[0]
            if "content-encoding" in headers:
                kind = ""
            if kind == "text/event-stream":
                self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
            elif kind == "application/json" or kind.endswith("+json"):
                # Its length is not known yet.
                self._start = message
                return
        elif message["type"] == "http.response.body":
            data, more = message.get("body", b""), message.get("more_body", False)
            if self._start is not None:
                self._body += data
                if more:
                    return
                start, self._start = self._start, None
                data = visible_json(self._body)
                MutableHeaders(raw=start["headers"])["content-length"] = str(len(data))
                await self._send(start)
            elif self._decoder is not None:
                # A raw carriage return is the stream's own: no string of JSON has one.
                told = self._decoder.decode(data, not more).split("\r")
                data = "\r".join(map(json_text, told)).encode()
            message = {**message, "body": data}
        await self._send(message)


def visible_json(body: bytes) -> bytes:
    """JSON in UTF-8 with escapes for the unseen characters of its strings."""
    return json_text(body.decode("utf-8", "replace")).encode()
