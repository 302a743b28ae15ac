"""Each answer of an MCP server is masked and escaped, whatever its handler gives or raises."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp.types import INTERNAL_ERROR, METHOD_NOT_FOUND, ErrorData, JSONRPCError, JSONRPCResponse
from pydantic import TypeAdapter, ValidationError

from zeus_runtime.config import Redactor
from zeus_runtime.serving.mcp_answers import VisibleErrors, visible_answers, visible_errors

SECRET = "Zq7Xw9Lm3Pf5Rt8Vb2Nc"
HIDING, SEEN = f"\u202e {SECRET}", "\\u202e <secret:S>"
HIDDEN_AND_SEEN = tuple(json.dumps(each)[1:-1] for each in (HIDING, SEEN))
MASK = Redactor({SECRET: "S"}).json
METADATA = ServerMessageMetadata(related_request_id=1)


async def answered(found: Any, *, masks_results: bool = True) -> Any:
    async def handler(_ctx: Any) -> Any:
        if isinstance(found, Exception):
            raise found
        return found

    return await visible_answers(MASK, MASK if masks_results else None)(None, handler)  # type: ignore[arg-type]


async def test_an_unexpected_error_is_masked_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(MCPError) as caught:
        await answered(ValueError(f"Unknown prompt: {HIDING}"))
    assert caught.value.code == INTERNAL_ERROR
    assert f"Unknown prompt: {SEEN}" in caplog.text
    assert SECRET not in caplog.text
    assert "\u202e" not in caplog.text


class Kept:
    """A stream that keeps what it gets."""

    def __init__(self) -> None:
        self.items: list[SessionMessage] = []

    async def send(self, item: SessionMessage, /) -> None:
        self.items.append(item)

    async def aclose(self) -> None: ...

    async def __aenter__(self) -> Kept:
        return self

    async def __aexit__(self, *_: object) -> None: ...


@pytest.mark.parametrize("data", [None, HIDING, {"a": [HIDING]}])
async def test_an_error_on_a_stream_is_masked_and_escaped_and_nothing_else_changes(data: Any) -> None:
    kept = Kept()
    more = {} if data is None else {"data": data}
    error = ErrorData(code=METHOD_NOT_FOUND, message=HIDING, **more)
    answer = JSONRPCResponse(jsonrpc="2.0", id=2, result={"content": HIDING})
    async with VisibleErrors(kept, MASK) as stream:
        await stream.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=HIDING, error=error), METADATA))
        await stream.send(SessionMessage(answer))
    failed, done = kept.items
    assert failed.metadata is METADATA
    assert isinstance(failed.message, JSONRPCError)
    assert failed.message.model_dump(exclude_unset=True) == {
        "jsonrpc": "2.0",
        "id": HIDING,
        "error": {
            "code": METHOD_NOT_FOUND,
            "message": SEEN,
            **json.loads(json.dumps(more).replace(*HIDDEN_AND_SEEN)),
        },
    }
    assert done.message == answer


ERROR = {"jsonrpc": "2.0", "id": HIDING, "error": {"code": -1, "message": HIDING, "data": [HIDING]}}
TOLD = {"jsonrpc": "2.0", "id": HIDING, "error": {"code": -1, "message": SEEN, "data": [SEEN]}}


async def sent(kind: bytes, *chunks: bytes) -> tuple[Mapping[bytes, bytes], list[bytes]]:
    """The headers and pieces of a response over HTTP."""
    messages: list[Any] = []

    async def keep(message: Any) -> None:
        messages.append(message)

    send = visible_errors(keep, MASK)
    headers = [(b"content-type", kind), (b"Content-Length", b"9")]
    await send({"type": "http.response.start", "status": 400, "headers": headers})
    for place, each in enumerate(chunks, 1):
        await send({"type": "http.response.body", "body": each, "more_body": place < len(chunks)})
    start, *bodies = messages
    assert start["status"] == 400
    return dict(start["headers"]), [each["body"] for each in bodies]


async def test_an_error_in_json_is_masked_and_escaped_and_its_length_is_told() -> None:
    text = json.dumps(ERROR, ensure_ascii=False).encode()
    headers, bodies = await sent(b"application/json", text[:40], text[40:])
    assert json.loads(b"".join(bodies)) == TOLD
    assert headers == {
        b"content-type": b"application/json",
        b"content-length": str(len(b"".join(bodies))).encode(),
    }
    result = b'{"id": 1, "result": {"error": "x"}}'
    assert (await sent(b"application/json", result))[1] == [result]
    assert (await sent(b"application/json", b""))[1] == [b""]


async def test_an_error_in_an_event_is_masked_and_escaped_wherever_its_pieces_end() -> None:
    text = json.dumps(ERROR, ensure_ascii=False).encode()
    before, event, after = b": ping\r\n\r\n", b"event: message\r\ndata: " + text, b"\r\n\r\ndata: {}\n\n"
    headers, bodies = await sent(b"text/event-stream", before, event[:60], event[60:] + after, b"data: x")
    assert headers[b"Content-Length"] == b"9"
    assert bodies[0] == before, "at once"
    lines = b"".join(bodies).split(b"data: ")
    assert (lines[0], lines[2:]) == (before + b"event: message\r\n", [b"{}\n\n", b"x"])
    assert lines[1].endswith(b"}\r\n\r\n")
    assert json.loads(lines[1]) == TOLD


async def test_the_sdk_tells_of_wrong_parameters_without_their_text() -> None:
    with pytest.raises(ValidationError) as wrong:
        TypeAdapter(int).validate_python(HIDING)
    with pytest.raises(ValidationError):
        await answered(wrong.value)


async def test_a_result_is_escaped_and_masked_unless_its_handler_masks_it() -> None:
    result = {"content": [{"type": "text", "text": HIDING}], "structuredContent": {"answer": HIDING}}
    assert await answered(result) == {
        "content": [{"type": "text", "text": SEEN}],
        "structuredContent": {"answer": "\u202e <secret:S>"},
    }
    of_handler = await answered(result, masks_results=False)
    assert of_handler["content"][0]["text"] == f"\\u202e {SECRET}"
    assert await answered(None) is None
