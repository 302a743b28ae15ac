"""The one way on which all results and errors of an MCP server go to its client. Imported only to serve."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from dataclasses import replace
from traceback import format_exception
from typing import TYPE_CHECKING, Any, Final

from mcp.shared.exceptions import MCPError
from mcp.types import INTERNAL_ERROR, JSONRPCError
from pydantic import BaseModel, ValidationError

from zeus_runtime.serving.visible_results import visible_data, visible_result, visible_text

if TYPE_CHECKING:
    from types import TracebackType

    from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext
    from mcp.shared._stream_protocols import WriteStream
    from mcp.shared.message import SessionMessage
    from starlette.types import Message, Send

    Mask = Callable[[Any], Any]

_log = logging.getLogger(__name__)
_TOLD: Final = ("message", "data")
_EVENT: Final = re.compile(rb"(?<=^data: )\{.*\}(?=\r?$)", re.MULTILINE)
"""The JSON of a server-sent event."""


def visible_answers(errors: Mask, results: Mask | None = None) -> ServerMiddleware[Any]:
    """A middleware that masks and escapes results. ``VisibleErrors`` and ``visible_errors`` do that for errors, of
    which the SDK makes some before any middleware.

    Args:
        errors: masks the text of an unexpected error, for the log.
        results: masks the JSON of a result; None if the handlers give masked ones.
    """

    async def shown(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        try:
            found = await call_next(ctx)
        except (MCPError, ValidationError):
            raise
        except Exception as error:  # noqa: BLE001 - each is told to the client
            # The SDK would log its text as it is.
            _log.error("a request failed: %s", visible_text(errors("".join(format_exception(error)))))
            raise MCPError(INTERNAL_ERROR, str(error)) from None
        # The middleware sees the SDK's model, or what a later middleware made of it; masking takes plain JSON.
        if isinstance(found, BaseModel):
            found = found.model_dump(by_alias=True, mode="json", exclude_none=True)
        result: dict[str, Any] | None = visible_result(found if results is None else results(found))
        return result

    return shown


class VisibleErrors:
    """A stream of messages to a client, in which errors are masked and escaped: they repeat the client's own words.

    Args:
        stream: takes the messages.
        mask: masks the text or JSON of an error.
    """

    def __init__(self, stream: WriteStream[SessionMessage], mask: Mask) -> None:
        self._stream = stream
        self._mask = mask

    async def send(self, item: SessionMessage, /) -> None:
        message = item.message
        if isinstance(message, JSONRPCError):
            told = message.error.model_dump(include={*_TOLD}, exclude_none=True)
            error = message.error.model_copy(update=visible_data(self._mask(told)))
            item = replace(item, message=message.model_copy(update={"error": error}))
        await self._stream.send(item)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> VisibleErrors:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return await self._stream.__aexit__(kind, error, traceback)


def visible_errors(send: Send, mask: Mask) -> Send:
    """As ``VisibleErrors``, for a response over HTTP: one message as JSON, or several as server-sent events."""
    start: Message | None = None
    body = b""

    def shown(message: bytes) -> bytes:
        found = json.loads(message) if b'"error"' in message else {}
        if not isinstance(found.get("error"), dict):
            return message
        told = {name: found["error"][name] for name in _TOLD if name in found["error"]}
        found["error"].update(visible_data(mask(told)))
        return json.dumps(found, separators=(",", ":")).encode()

    async def visibly(message: Message) -> None:
        nonlocal start, body
        if message["type"] == "http.response.start" and _has_json(message):
            # Its headers have the length of the body.
            start = message
            return
        if message["type"] != "http.response.body":
            await send(message)
            return
        body += message.get("body", b"")
        is_last = not message.get("more_body", False)
        if start is None:
            end = len(body) if is_last else body.rfind(b"\n") + 1
            whole, body = _EVENT.sub(lambda event: shown(event[0]), body[:end]), body[end:]
            await send({**message, "body": whole})
        elif is_last:
            whole = shown(body)
            length = (b"content-length", str(len(whole)).encode())
            others = [each for each in start["headers"] if each[0].lower() != length[0]]
            await send({**start, "headers": [*others, length]})
            await send({**message, "body": whole})

    return visibly


def _has_json(start: Message) -> bool:
    return any(
        name.lower() == b"content-type" and value.startswith(b"application/json")
        for name, value in start["headers"]
    )
