"""Responses: answers as ``response`` objects and numbered events.

The events are made from stored ones alone, so a repeated stream has the same numbers.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

from zeus_plugins.protocols.openai import parameters
from zeus_plugins.protocols.openai.answer import AnswerRequest, TurnAnswer
from zeus_plugins.protocols.openai.chat import PING, about
from zeus_plugins.protocols.openai.conversation import APPROVAL, Call, of_items
from zeus_plugins.protocols.openai.errors import BadRequestError

if TYPE_CHECKING:
    from zeus_plugins.protocols.openai.options import Options
    from zeus_runtime.plugin.protocol import ProtocolCaller

FOLLOWED: Final = frozenset(
    {
        "model",
        "input",
        "instructions",
        "stream",
        "tools",
        "background",
        "conversation",
        "previous_response_id",
    }
)
PREFIX: Final = "resp_"


async def request_of(
    body: Mapping[str, Any], options: Options, caller: ProtocolCaller
) -> tuple[AnswerRequest, bool]:
    """The request, and whether calls that wait for a decision are shown as calls of the client's tool.

    Raises:
        ZeusError: it is not valid, or names what does not exist.
    """
    model = parameters.model_of(body)
    parameters.check(body, FOLLOWED, options.ignore)
    tools, has_approval = parameters.tools_of(body)
    conversation = of_items(body.get("input"), body.get("instructions"))
    previous, named = body.get("previous_response_id"), body.get("conversation")
    if previous is not None and named is not None:
        raise BadRequestError(
            "previous_response_id and conversation exclude each other", param="conversation"
        )
    session = None if named is None else _conversation(named)
    follows = None if previous is None else await caller.turn(run_of(previous))
    for each in (session, None if follows is None else follows.session):
        if each is not None and (own := await caller.agent_of(each)) != model:
            raise BadRequestError(f"the conversation belongs to the model {own!r}", param="model")
    return AnswerRequest(model, conversation, tools, session, follows), has_approval


def _conversation(named: Any) -> str:
    name = named.get("id") if isinstance(named, Mapping) else named
    if not isinstance(name, str) or not name:
        raise BadRequestError("conversation must be an id", param="conversation")
    return name


def run_of(previous: Any) -> str:
    """The run that a response's id names.

    Raises:
        BadRequestError: it is not an id.
    """
    if not isinstance(previous, str) or not previous.startswith(PREFIX):
        raise BadRequestError("previous_response_id must be a response's id", param="previous_response_id")
    # An id is `resp_RUN_AFTER`. A turn may have several answers; the next one follows the turn.
    return previous.removeprefix(PREFIX).partition("_")[0]


async def whole(answer: TurnAnswer, *, has_approval: bool, follow: bool = True) -> Mapping[str, Any]:
    """The answer as one object.

    Args:
        follow: whether to wait for an answer that is not complete.
    """
    async with aclosing(answer.pieces(follow=follow)) as pieces:
        async for _ in pieces:
            pass
    _show_waiting(answer, has_approval)
    await answer.remember(answer.text)
    return response(answer)


async def streamed(answer: TurnAnswer, *, has_approval: bool, after: int = -1) -> AsyncGenerator[bytes, None]:
    """The answer as server-sent events.

    Args:
        after: the number of the last event that the client has.
    """
    number = -1

    def event(kind: str, **more: Any) -> bytes:
        nonlocal number
        number += 1
        # Numbered but not sent: the client has it, and those after it keep their numbers.
        if number <= after:
            return b""
        value = {"type": kind, "sequence_number": number, **more}
        return f"event: {kind}\ndata: {json.dumps(value, ensure_ascii=False)}\n\n".encode()

    yield event("response.created", response=response(answer, "in_progress"))
    yield event("response.in_progress", response=response(answer, "in_progress"))
    said: list[str] = []
    place = {"item_id": _message_id(answer), "output_index": 0, "content_index": 0}
    async with aclosing(answer.pieces()) as pieces:
        async for text in pieces:
            if text is None:
                yield PING
                continue
            if not said:
                item = {**_message(answer, ""), "status": "in_progress", "content": []}
                yield event("response.output_item.added", output_index=0, item=item)
                yield event("response.content_part.added", **place, part=_part(""))
            said.append(text)
            yield event("response.output_text.delta", **place, delta=text, logprobs=[])
    _show_waiting(answer, has_approval)
    told = "".join(said)
    if said:
        yield event("response.output_text.done", **place, text=told, logprobs=[])
        yield event("response.content_part.done", **place, part=_part(told))
        yield event("response.output_item.done", output_index=0, item=_message(answer, told))
    # The message, if there is one, is the output's item 0.
    for index, call in enumerate(answer.calls, start=1 if said else 0):
        for kind, more in _call_events(call, index):
            yield event(kind, **more)
    await answer.remember(told)
    final = response(answer, text=told)
    # A cancelled response has no event of its own in OpenAI's API.
    kinds = {"completed": "response.completed", "incomplete": "response.incomplete"}
    yield event(kinds.get(final["status"], "response.failed"), response=final)


def response(answer: TurnAnswer, status: str | None = None, *, text: str | None = None) -> Mapping[str, Any]:
    """The response object.

    Args:
        status: instead of the answer's own.
        text: the text that a stream told.
    """
    status = status or _status(answer)
    told = answer.text if text is None else text
    output: list[Mapping[str, Any]] = []
    if answer.ending is not None and (told or (status != "failed" and not answer.calls)):
        output.append(_message(answer, told))
    output += [_call_item(each) for each in answer.calls]
    ending = answer.ending or {}
    error = {"code": "server_error", "message": f"{ending.get('code')}: {ending.get('message')}"}
    return {
        "id": PREFIX + answer.id,
        "object": "response",
        "created_at": answer.turn.created_ms // 1000,
        "status": status,
        "background": False,
        "error": error if status == "failed" else None,
        "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
        "instructions": None,
        "max_output_tokens": None,
        "model": answer.agent,
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "conversation": {"id": answer.turn.session},
        "reasoning": {"effort": None, "summary": None},
        "store": True,
        "temperature": None,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "truncation": "disabled",
        "usage": _usage(answer) if answer.ending else None,
        "user": None,
        "metadata": {},
        "zeus": about(answer),
    }


def _status(answer: TurnAnswer) -> str:
    if answer.ending is None:
        return "queued" if answer.turn.state == "queued" else "in_progress"
    if answer.is_failed:
        return "cancelled" if answer.ending["code"] == "cancelled" else "failed"
    return "incomplete" if answer.ending.get("finish_reason") == "length" else "completed"


def _show_waiting(answer: TurnAnswer, has_approval: bool) -> None:
    (answer.asks_by_call if has_approval else answer.asks_by_request)()


def _message_id(answer: TurnAnswer) -> str:
    return f"msg_{answer.id}"


def _message(answer: TurnAnswer, text: str) -> Mapping[str, Any]:
    return {
        "id": _message_id(answer),
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [_part(text)],
    }


def _part(text: str) -> Mapping[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _call_item(call: Call) -> Mapping[str, Any]:
    if call.id.startswith(APPROVAL):
        return {
            "type": "mcp_approval_request",
            "id": call.id,
            "server_label": parameters.SERVER_LABEL,
            "name": call.name,
            "arguments": call.arguments,
        }
    return {
        "type": "function_call",
        "id": f"fc_{call.id}",
        "call_id": call.id,
        "name": call.name,
        "arguments": call.arguments,
        "status": "completed",
    }


def _call_events(call: Call, index: int) -> Iterator[tuple[str, Mapping[str, Any]]]:
    item = _call_item(call)
    if item["type"] == "function_call":
        begun = {**item, "arguments": "", "status": "in_progress"}
        place = {"item_id": item["id"], "output_index": index}
        done = {**place, "arguments": call.arguments, "name": call.name}
        yield "response.output_item.added", {"output_index": index, "item": begun}
        yield "response.function_call_arguments.delta", {**place, "delta": call.arguments}
        yield "response.function_call_arguments.done", done
    else:
        yield "response.output_item.added", {"output_index": index, "item": item}
    yield "response.output_item.done", {"output_index": index, "item": item}


def _usage(answer: TurnAnswer) -> Mapping[str, Any]:
    return {
        "input_tokens": answer.prompt_tokens,
        "input_tokens_details": {"cached_tokens": answer.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": answer.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": answer.prompt_tokens + answer.completion_tokens,
    }
