"""A model provider on the loopback: speaks OpenAI chat completions and Anthropic messages, and fails as told.

    with Provider(Reply("Hello"), Reply(status=429, headers={"retry-after": "1"})) as provider:
        ...  # api_base=provider.openai (or provider.anthropic)
        provider.requests[0].body["messages"]

Replies are given out in order. Nothing sleeps: what hangs waits on the socket or for the server to stop.
"""

from __future__ import annotations

import json
import select
import socket
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Condition, Thread
from typing import Any


@dataclass(frozen=True)
class Call:
    """A tool call in a reply.

    Args:
        name: the tool's.
        arguments: JSON text, or anything when it should be broken.
        id: None leaves it out, as some servers do.
    """

    name: str
    arguments: str = "{}"
    id: str | None = "call_1"


@dataclass(frozen=True)
class Reply:
    """One answer of the provider.

    Args:
        text: the answer; streamed in pieces of ``piece`` characters, like the calls' arguments.
        calls: tool calls, in parallel.
        reasoning: what the model thought, with a signature where the API has one.
        usage: as the API reports it; None reports none. By default 11 in, 7 out.
        finish_reason: None for what fits the reply; ``missing`` to send none.
        status: anything but 200 makes it an error with ``body`` or an error object around ``text``.
        headers: further response headers.
        body: sent as it is, instead of everything else.
        piece: characters in one streamed piece.
        indexed: False leaves out the calls' index, as some servers do.
        same_index: every call says index 0, as some servers do.
        repeat_ids: every piece of a call repeats id and name, as some servers do.
        cut_after: the connection ends, cleanly, after so many stream events.
        reset_after: the connection is reset after so many stream events (0: before any answer).
        hang_after: nothing comes any more after so many stream events (0: not even a status).
    """

    text: str = ""
    calls: Sequence[Call] = ()
    reasoning: str = ""
    usage: Mapping[str, Any] | None = field(default_factory=lambda: {"in": 11, "out": 7})
    finish_reason: str | None = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str | None = None
    piece: int = 4
    indexed: bool = True
    same_index: bool = False
    repeat_ids: bool = False
    cut_after: int | None = None
    reset_after: int | None = None
    hang_after: int | None = None


@dataclass(frozen=True)
class Received:
    """One request as it came in."""

    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]


class Provider:
    """The server; a context manager.

    Args:
        replies: given out in order; when they are used up the provider answers 400 and says so.
        answer: makes the reply from the request, instead of ``replies``.
    """

    def __init__(self, *replies: Reply, answer: Callable[[Received], Reply] | None = None) -> None:
        self.requests: list[Received] = []
        self._replies = list(replies)
        self._answer = answer
        self._changed = Condition()
        self._open = 0
        self._hangups = 0
        self._stopping = False
        provider = self

        class Handler(_Handler):
            owner = provider

        self._server = _Server(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    def __enter__(self) -> Provider:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._stopping = True
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def openai(self) -> str:
        """What goes into ``api_base`` for an ``openai/...`` model."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @property
    def anthropic(self) -> str:
        """What goes into ``api_base`` for an ``anthropic/...`` model."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def open_connections(self) -> int:
        return self._open

    def add(self, *replies: Reply) -> None:
        """More replies at the end."""
        self._replies += replies

    def wait_for_hangup(self, timeout_seconds: float = 60, *, count: int = 1) -> bool:
        """Whether so many clients went away in the middle of an answer, now or within the timeout."""
        return self._wait(lambda: self._hangups >= count, timeout_seconds)

    def wait_for_requests(self, count: int, timeout_seconds: float = 60) -> bool:
        """Whether ``count`` requests have come in, now or within the timeout."""
        return self._wait(lambda: len(self.requests) >= count, timeout_seconds)

    def wait_for_no_connection(self, timeout_seconds: float = 60) -> bool:
        """Whether every connection was closed, now or within the timeout."""
        return self._wait(lambda: self._open == 0, timeout_seconds)

    def _wait(self, condition: Callable[[], bool], timeout_seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(condition, timeout_seconds)

    def _received(self, request: Received) -> Reply:
        with self._changed:
            self.requests.append(request)
            self._changed.notify_all()
            if self._answer is not None:
                return self._answer(request)
            return (
                self._replies.pop(0) if self._replies else Reply("the script has no more replies", status=400)
            )

    def _count(self, *, opened: int = 0, hangups: int = 0) -> None:
        with self._changed:
            self._open += opened
            self._hangups += hangups
            self._changed.notify_all()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is what some tests are about."""


class _GoneError(Exception):
    """The client has closed the connection."""


class _Handler(BaseHTTPRequestHandler):
    owner: Provider
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        self.owner._count(opened=1)

    def finish(self) -> None:
        self.owner._count(opened=-1)
        super().finish()

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        request = Received(
            self.path, {key.lower(): value for key, value in self.headers.items()}, json.loads(raw)
        )
        reply = self.owner._received(request)
        try:
            self._reply(request, reply)
        except (_GoneError, BrokenPipeError, ConnectionResetError):
            self.owner._count(hangups=1)
            self.close_connection = True

    def _reply(self, request: Received, reply: Reply) -> None:
        anthropic = request.path.endswith("/messages")
        if reply.hang_after == 0:
            self._hang()
        elif reply.reset_after == 0:
            self._reset()
        elif reply.body is not None:
            kind = "text/event-stream" if request.body.get("stream") else "application/json"
            self._whole(reply, reply.body, kind)
        elif reply.status != 200:
            self._whole(reply, json.dumps(_error(reply, anthropic=anthropic)))
        elif request.body.get("stream"):
            usage = request.body.get("stream_options", {}).get("include_usage", False)
            events = _anthropic_events(reply) if anthropic else _openai_events(reply, usage=usage)
            self._stream(reply, events)
        else:
            whole = _anthropic_whole(reply) if anthropic else _openai_whole(reply)
            self._whole(reply, json.dumps(whole))

    def _whole(self, reply: Reply, body: str, kind: str = "application/json") -> None:
        data = body.encode()
        self.send_response(reply.status)
        for key, value in {"content-type": kind, "content-length": str(len(data)), **reply.headers}.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, reply: Reply, events: Iterator[str]) -> None:
        self.send_response(200)
        headers = {"content-type": "text/event-stream", "transfer-encoding": "chunked", **reply.headers}
        if reply.cut_after is not None:
            # Without it the client may send its next request on this connection before it learns of the end.
            headers["connection"] = "close"
        for key, value in headers.items():
            self.send_header(key, value)
        self.end_headers()
        for number, event in enumerate(events):
            if number == reply.hang_after:
                self._hang()
                return
            if number == reply.reset_after:
                self._reset()
                return
            if number == reply.cut_after:
                break
            self._chunk(event.encode())
        self._chunk(b"")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def _hang(self) -> None:
        waiting = select.poll()  # `select.select` fails where the process has more than 1,024 open files
        waiting.register(self.connection, select.POLLIN)
        while not self.owner._stopping:
            if waiting.poll(20) and not self.connection.recv(1, socket.MSG_PEEK):
                raise _GoneError
        self.close_connection = True

    def _reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True


def _error(reply: Reply, *, anthropic: bool) -> dict[str, Any]:
    if anthropic:
        kind = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}.get(
            reply.status, "invalid_request_error" if reply.status < 500 else "api_error"
        )
        return {"type": "error", "error": {"type": kind, "message": reply.text or "no"}}
    return {"error": {"message": reply.text or "no", "type": "error", "param": None, "code": None}}


def _pieces(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def _openai_usage(reply: Reply) -> dict[str, Any] | None:
    if reply.usage is None:
        return None
    used = dict(reply.usage)
    tokens_in, tokens_out = used.pop("in"), used.pop("out")
    usage = {
        "prompt_tokens": tokens_in,
        "completion_tokens": tokens_out,
        "total_tokens": tokens_in + tokens_out,
    }
    if "cached" in used:
        usage["prompt_tokens_details"] = {"cached_tokens": used["cached"]}
    if "reasoning" in used:
        usage["completion_tokens_details"] = {"reasoning_tokens": used["reasoning"]}
    return usage


def _openai_reason(reply: Reply) -> str:
    return reply.finish_reason or ("tool_calls" if reply.calls else "stop")


def _openai_events(reply: Reply, *, usage: bool) -> Iterator[str]:
    def event(delta: dict[str, Any], reason: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return _sse({**_openai_head("chat.completion.chunk"), "choices": [choice]})

    yield event({"role": "assistant", "content": ""})
    for piece in _pieces(reply.reasoning, reply.piece):
        yield event({"reasoning_content": piece})
    for piece in _pieces(reply.text, reply.piece):
        yield event({"content": piece})
    for index, call in enumerate(reply.calls):
        for number, piece in enumerate(["", *_pieces(call.arguments, reply.piece)]):
            part: dict[str, Any] = {"function": {"arguments": piece}}
            if reply.indexed:
                part["index"] = 0 if reply.same_index else index
            if number == 0 or reply.repeat_ids:
                part["type"] = "function"
                part["function"]["name"] = call.name
                if call.id is not None:
                    part["id"] = call.id
            yield event({"tool_calls": [part]})
    if reply.finish_reason != "missing":
        yield event({}, _openai_reason(reply))
    if usage and reply.usage is not None:
        yield _sse({**_openai_head("chat.completion.chunk"), "choices": [], "usage": _openai_usage(reply)})
    yield "data: [DONE]\n\n"


def _openai_whole(reply: Reply) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
    if reply.reasoning:
        message["reasoning_content"] = reply.reasoning
    if reply.calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in reply.calls
        ]
    choice = {"index": 0, "message": message, "finish_reason": _openai_reason(reply)}
    return {**_openai_head("chat.completion"), "choices": [choice], "usage": _openai_usage(reply)}


def _openai_head(kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": kind, "created": 1_760_000_000, "model": "served-model"}


def _anthropic_usage(reply: Reply) -> dict[str, Any]:
    used = dict(reply.usage or {"in": 0, "out": 0})
    return {
        "input_tokens": used["in"],
        "output_tokens": used["out"],
        "cache_read_input_tokens": used.get("cached", 0),
        "cache_creation_input_tokens": used.get("written", 0),
        "cache_creation": {
            "ephemeral_5m_input_tokens": used.get("written", 0) - used.get("hour", 0),
            "ephemeral_1h_input_tokens": used.get("hour", 0),
        },
    }


def _anthropic_reason(reply: Reply) -> str:
    return reply.finish_reason or ("tool_use" if reply.calls else "end_turn")


def _anthropic_events(reply: Reply) -> Iterator[str]:
    def event(kind: str, **fields: Any) -> str:
        return f"event: {kind}\n" + _sse({"type": kind, **fields})

    yield event(
        "message_start", message={**_anthropic_head(), "content": [], "usage": _anthropic_usage(reply)}
    )
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    if reply.reasoning:
        thinking = [
            {"type": "thinking_delta", "thinking": piece} for piece in _pieces(reply.reasoning, reply.piece)
        ]
        signature = {"type": "signature_delta", "signature": "signed"}
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, [*thinking, signature]))
    if reply.text:
        parts = [{"type": "text_delta", "text": piece} for piece in _pieces(reply.text, reply.piece)]
        blocks.append(({"type": "text", "text": ""}, parts))
    for call in reply.calls:
        parts = [
            {"type": "input_json_delta", "partial_json": piece}
            for piece in _pieces(call.arguments, reply.piece)
        ]
        blocks.append(({"type": "tool_use", "id": call.id, "name": call.name, "input": {}}, parts))
    for index, (block, deltas) in enumerate(blocks):
        yield event("content_block_start", index=index, content_block=block)
        for delta in deltas:
            yield event("content_block_delta", index=index, delta=delta)
        yield event("content_block_stop", index=index)
    if reply.finish_reason != "missing":
        delta = {"stop_reason": _anthropic_reason(reply), "stop_sequence": None}
        yield event("message_delta", delta=delta, usage=_anthropic_usage(reply))
        yield event("message_stop")


def _anthropic_whole(reply: Reply) -> dict[str, Any]:
    content: list[dict[str, Any]] = []
    if reply.reasoning:
        content.append({"type": "thinking", "thinking": reply.reasoning, "signature": "signed"})
    if reply.text:
        content.append({"type": "text", "text": reply.text})
    for call in reply.calls:
        arguments = json.loads(call.arguments)
        content.append({"type": "tool_use", "id": call.id, "name": call.name, "input": arguments})
    return {
        **_anthropic_head(),
        "content": content,
        "stop_reason": _anthropic_reason(reply),
        "usage": _anthropic_usage(reply),
    }


def _anthropic_head() -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "served-model",
        "stop_reason": None,
    }


def _sse(value: Mapping[str, Any]) -> str:
    return f"data: {json.dumps(value)}\n\n"
