"""Chat completions: answers as ``chat.completion`` objects and chunks."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

from zeus_plugins.protocols.openai import parameters
from zeus_plugins.protocols.openai.answer import AnswerRequest, TurnAnswer
from zeus_plugins.protocols.openai.conversation import of_chat
from zeus_plugins.protocols.openai.errors import BadRequestError, body_of, status_of

if TYPE_CHECKING:
    from zeus_plugins.protocols.openai.options import Options

FOLLOWED: Final = frozenset({"model", "messages", "stream", "tools"})
PING: Final = b": ping\n\n"
DONE: Final = b"data: [DONE]\n\n"


def request_of(body: Mapping[str, Any], options: Options) -> tuple[AnswerRequest, bool]:
    """The request, and whether calls that wait for a decision are shown as calls of the client's tool.

    Raises:
        BadRequestError: it is not valid.
    """
    model = parameters.model_of(body)
    parameters.check(body, FOLLOWED, options.ignore)
    tools, has_approval = parameters.tools_of(body)
    return AnswerRequest(model, of_chat(body.get("messages")), tools), has_approval


async def whole(answer: TurnAnswer, *, has_approval: bool) -> tuple[Mapping[str, Any], int]:
    """The answer as one object, and its HTTP status."""
    async with aclosing(answer.pieces()) as pieces:
        async for _ in pieces:
            pass
    _show_waiting(answer, has_approval)
    if answer.is_failed:
        return failure(answer)
    await answer.remember(answer.text)
    message = {
        "role": "assistant",
        "content": answer.text or None,
        "refusal": None,
        **({"tool_calls": _calls(answer)} if answer.calls else {}),
    }
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(answer)}
    return {
        **_head(answer, "chat.completion"),
        "choices": [choice],
        "usage": _usage(answer),
        "zeus": about(answer),
    }, 200


async def streamed(
    answer: TurnAnswer, *, has_approval: bool, with_usage: bool
) -> AsyncGenerator[bytes, None]:
    """The answer as server-sent events."""
    head = _head(answer, "chat.completion.chunk")

    def chunk(delta: Mapping[str, Any], finish: str | None = None, **more: Any) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return _data({**head, "choices": [choice], **({"usage": None} if with_usage else {}), **more})

    yield chunk({"role": "assistant", "content": ""})
    said: list[str] = []
    async with aclosing(answer.pieces()) as pieces:
        async for text in pieces:
            if text is None:
                yield PING
            else:
                said.append(text)
                yield chunk({"content": text})
    if text := _show_waiting(answer, has_approval):
        said.append(text)
        yield chunk({"content": text})
    if answer.is_failed:
        yield _data(failure(answer)[0])
        return
    # The text as it was streamed: the client also has what a repeated model call made void.
    await answer.remember("".join(said))
    if answer.calls:
        yield chunk({"tool_calls": [{"index": place, **each} for place, each in enumerate(_calls(answer))]})
    yield chunk({}, _finish(answer), zeus=about(answer))
    # OpenAI's clients expect the usage in a further chunk, after the one with `finish_reason`, without choices.
    if with_usage:
        yield _data({**head, "choices": [], "usage": _usage(answer)})
    yield DONE


def failure(answer: TurnAnswer) -> tuple[Mapping[str, Any], int]:
    """A failed turn as an error, and its HTTP status."""
    assert answer.ending is not None
    status = status_of(answer.ending["code"])
    return body_of(answer.ending["message"], status, code=answer.ending["code"]), status


def about(answer: TurnAnswer) -> Mapping[str, Any]:
    """Where the answer is in the service, for clients that use its own API too."""
    return {
        "session": answer.turn.session,
        "run": answer.turn.run,
        **({"approvals": [dict(each) for each in answer.waiting]} if answer.waiting else {}),
    }


def wants_usage(body: Mapping[str, Any]) -> bool:
    """Whether a stream ends with its usage.

    Raises:
        BadRequestError: the options of the stream are not valid.
    """
    given = body.get("stream_options") or {}
    if not isinstance(given, Mapping):
        raise BadRequestError("stream_options must be an object", param="stream_options")
    return parameters.flag(given, "include_usage")


def _show_waiting(answer: TurnAnswer, has_approval: bool) -> str:
    """Show the calls that wait for a decision, and return the text that says so."""
    if has_approval:
        answer.asks_by_call()
        return ""
    return answer.asks_by_text()


def _head(answer: TurnAnswer, kind: str) -> Mapping[str, Any]:
    return {
        "id": f"chatcmpl-{answer.id}",
        "object": kind,
        "created": answer.turn.created_ms // 1000,
        "model": answer.agent,
    }


def _calls(answer: TurnAnswer) -> list[Mapping[str, Any]]:
    return [
        {"id": each.id, "type": "function", "function": {"name": each.name, "arguments": each.arguments}}
        for each in answer.calls
    ]


def _finish(answer: TurnAnswer) -> str:
    if answer.calls:
        return "tool_calls"
    return "length" if (answer.ending or {}).get("finish_reason") == "length" else "stop"


def _usage(answer: TurnAnswer) -> Mapping[str, Any]:
    return {
        "prompt_tokens": answer.prompt_tokens,
        "completion_tokens": answer.completion_tokens,
        "total_tokens": answer.prompt_tokens + answer.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": answer.cached_tokens},
    }


def _data(value: Mapping[str, Any]) -> bytes:
    return f"data: {json.dumps(value, ensure_ascii=False)}\n\n".encode()
