"""LangChain messages as the thread log stores them and as chat-completion providers speak them.

Two forms, both JSON:

- the *payload* is ours: compact, keeps every field of a message, omits what is empty (``to_payload``,
  ``from_payload``);
- the *chat* form is the OpenAI chat-completions message (``to_chat``, ``from_chat``). It carries three keys
  providers do not know (``id``, ``is_error``, ``additional_kwargs``), so that the way there and back loses
  nothing; ``portable=True`` leaves them out, and that is what goes to a provider.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime.strict_json import json_problem, strict_json

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, BaseMessage, InvalidToolCall, ToolCall

_ROLES: Final = {
    "human": "user",
    "HumanMessageChunk": "user",
    "ai": "assistant",
    "AIMessageChunk": "assistant",
    "system": "system",
    "SystemMessageChunk": "system",
    "tool": "tool",
    "ToolMessageChunk": "tool",
}

REASONING_KEYS: Final = ("reasoning_content", "thinking_blocks", "provider_specific_fields")
"""Keys of ``additional_kwargs`` a provider wants back with the assistant's message, such as signed thinking."""

TOOL_CALL_FIELDS: Final = "tool_call_fields"
"""Key of ``additional_kwargs``: call id to what a provider attached to the call, such as Gemini's signatures."""

PROVIDER: Final = "model_provider"
"""Key of an answer's ``response_metadata`` where it holds parts for its provider alone: litellm's name of it."""

CUT: Final = "the answer reached its output limit within the arguments of this call"
"""The ``error`` of a call that was cut off."""

_FOREIGN: Final = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_NAME: Final = 64
_NO_NAME: Final = "unnamed"


def to_payload(message: BaseMessage) -> dict[str, Any]:
    """The message as a small JSON object for the thread log.

    Raises:
        TypeError: for a message kind a conversation cannot hold (function, chat, remove).
    """
    role = _role(message)
    payload: dict[str, Any] = {"role": role, "content": message.content}
    if message.id is not None:
        payload["id"] = message.id
    if message.name is not None:
        payload["name"] = message.name
    if message.additional_kwargs:
        payload["additional_kwargs"] = message.additional_kwargs
    if message.response_metadata:
        payload["response_metadata"] = message.response_metadata
    if role == "assistant":
        _add_calls(payload, message)
    elif role == "tool":
        payload["tool_call_id"] = message.tool_call_id  # type: ignore[attr-defined]
        if message.status == "error":  # type: ignore[attr-defined]
            payload["is_error"] = True
        if message.artifact is not None:  # type: ignore[attr-defined]
            payload["artifact"] = message.artifact  # type: ignore[attr-defined]
    return payload


def _add_calls(payload: dict[str, Any], message: Any) -> None:
    if message.tool_calls:
        payload["tool_calls"] = [
            {"id": call["id"], "name": call["name"], "args": call["args"]} for call in message.tool_calls
        ]
    if message.invalid_tool_calls:
        payload["invalid_tool_calls"] = [
            {"id": call["id"], "name": call["name"], "args": call["args"], "error": call["error"]}
            for call in message.invalid_tool_calls
        ]
    if message.usage_metadata:
        payload["usage"] = message.usage_metadata


def from_payload(payload: Mapping[str, Any]) -> BaseMessage:
    """The message a payload was made from.

    Raises:
        ValueError: the payload has no known role.
    """
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

    fields: dict[str, Any] = {
        name: payload[name]
        for name in ("content", "id", "name", "additional_kwargs", "response_metadata")
        if name in payload
    }
    role = payload.get("role")
    if role == "assistant":
        return AIMessage(
            **fields,
            tool_calls=[{**call, "type": "tool_call"} for call in payload.get("tool_calls", ())],
            invalid_tool_calls=[
                {**call, "type": "invalid_tool_call"} for call in payload.get("invalid_tool_calls", ())
            ],
            usage_metadata=payload.get("usage"),
        )
    if role == "tool":
        return ToolMessage(
            **fields,
            tool_call_id=payload["tool_call_id"],
            status="error" if payload.get("is_error") else "success",
            artifact=payload.get("artifact"),
        )
    if role == "user":
        return HumanMessage(**fields)
    if role == "system":
        return SystemMessage(**fields)
    raise ValueError(f"a stored message has the unknown role {role!r}")


def given_by(message: AIMessage, provider: str) -> AIMessage:
    """``message``, with the provider that its reasoning and its calls' fields are for, if it has any."""
    if not provider or not {*REASONING_KEYS, TOOL_CALL_FIELDS} & message.additional_kwargs.keys():
        return message
    metadata = {**message.response_metadata, PROVIDER: provider}
    return message.model_copy(update={"response_metadata": metadata})


def is_for(message: BaseMessage, provider: str) -> bool:
    """Whether ``provider`` can read a message's reasoning and its calls' fields; another one may refuse them."""
    # A message without this key has nothing for one provider alone.
    return message.response_metadata.get(PROVIDER, provider) in (provider, "")


def to_chat(message: BaseMessage, *, portable: bool = False, provider: str = "") -> dict[str, Any]:
    """The message as a chat-completions object.

    Args:
        message: human, ai, system or tool.
        portable: only what providers know. Arguments that are not a JSON object are wrapped, and names that no tool can
            have are made valid, because some providers refuse a whole conversation for one such call.
        provider: litellm's name of the provider that gets it; parts for another provider alone are left out. Empty
            leaves out none.

    Raises:
        TypeError: for a message kind a conversation cannot hold.
    """
    role = _role(message)
    chat: dict[str, Any] = {"role": role, "content": message.content}
    if message.name is not None and role != "tool":
        chat["name"] = message.name
    rest = dict(message.additional_kwargs)
    if provider and not is_for(message, provider):
        rest = {key: rest[key] for key in rest if key not in (*REASONING_KEYS, TOOL_CALL_FIELDS)}
    if role == "assistant":
        for key in REASONING_KEYS:
            if key in rest:
                chat[key] = rest.pop(key)
        calls = _chat_calls(message, rest.pop(TOOL_CALL_FIELDS, {}), portable=portable)
        if calls:
            chat["tool_calls"] = calls
            # As OpenAI itself writes an answer that is calls alone.
            if message.content == "":
                chat["content"] = None
    elif role == "tool":
        chat["tool_call_id"] = message.tool_call_id  # type: ignore[attr-defined]
        if message.name is not None:
            chat["name"] = sendable_name(message.name) if portable else message.name
        if not portable and message.status == "error":  # type: ignore[attr-defined]
            chat["is_error"] = True
    if not portable:
        if message.id is not None:
            chat["id"] = message.id
        if rest:
            chat["additional_kwargs"] = rest
    return chat


def _chat_calls(message: Any, attached: Mapping[str, Any], *, portable: bool) -> list[dict[str, Any]]:
    calls = [
        _chat_call(call["id"], call["name"], json.dumps(call["args"], ensure_ascii=False), attached)
        for call in message.tool_calls
    ]
    for call in message.invalid_tool_calls:
        text = call["args"] or ""
        arguments = json.dumps({"invalid_arguments": text}, ensure_ascii=False) if portable else text
        calls.append(_chat_call(call["id"], call["name"], arguments, attached))
    if portable:
        for sent in calls:
            sent["function"]["name"] = sendable_name(sent["function"]["name"])
    return calls


def sendable_name(name: str | None) -> str:
    """``name`` as every provider takes it: ``[A-Za-z0-9_-]{1,64}``; a tool's name is that already."""
    return _FOREIGN.sub("_", name or "")[:_LONGEST_NAME] or _NO_NAME


def _chat_call(
    call_id: str | None, name: str | None, arguments: str, attached: Mapping[str, Any]
) -> dict[str, Any]:
    call: dict[str, Any] = {
        "id": call_id,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }
    if call_id is not None and call_id in attached:
        call["provider_specific_fields"] = attached[call_id]
    return call


def from_chat(chat: Mapping[str, Any]) -> BaseMessage:
    """The LangChain message of a chat-completions object; ``developer`` counts as ``system``.

    Raises:
        ValueError: an unknown role, or a tool message without ``tool_call_id``.
    """
    from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage

    role = chat.get("role")
    content = "" if chat.get("content") is None else chat["content"]
    extra: dict[str, Any] = {"additional_kwargs": dict(chat.get("additional_kwargs", {}))}
    for name in ("id", "name"):
        if chat.get(name) is not None:
            extra[name] = chat[name]
    if role == "assistant":
        for key in REASONING_KEYS:
            if key in chat:
                extra["additional_kwargs"][key] = chat[key]
        attached = {
            call["id"]: call["provider_specific_fields"]
            for call in chat.get("tool_calls") or ()
            if "provider_specific_fields" in call
        }
        if attached:
            extra["additional_kwargs"][TOOL_CALL_FIELDS] = attached
        calls = [
            (call.get("id"), call["function"].get("name"), call["function"].get("arguments"))
            for call in chat.get("tool_calls") or ()
        ]
        return assistant_message(content, calls, **extra)
    if role == "tool":
        if "tool_call_id" not in chat:
            raise ValueError("a tool message has no tool_call_id")
        status = "error" if chat.get("is_error") else "success"
        return ToolMessage(content=content, tool_call_id=chat["tool_call_id"], status=status, **extra)
    if role == "user":
        return HumanMessage(content=content, **extra)
    if role in ("system", "developer"):
        return SystemMessage(content=content, **extra)
    raise ValueError(f"a chat message has the unknown role {role!r}")


def assistant_message(
    content: str | list[str | dict[Any, Any]],
    calls: Sequence[tuple[str | None, str | None, str | None]],
    *,
    is_cut: bool = False,
    **fields: Any,
) -> AIMessage:
    """An assistant's message from its text and its calls as the provider wrote them.

    Args:
        content: text, or content blocks.
        calls: (id, name, arguments as JSON text) of each call. Arguments that are not a JSON object, and
            calls without a name, go to ``invalid_tool_calls``.
        is_cut: the answer ended at its output limit: a last call without whole arguments is invalid.
        fields: further fields of the message.
    """
    from langchain_core.messages import AIMessage

    valid: list[ToolCall] = []
    invalid: list[InvalidToolCall] = []
    for place, (call_id, name, arguments) in enumerate(calls, 1):
        text = arguments or ""
        try:
            if not name:
                raise ValueError("the call names no tool")
            # Otherwise a call that was cut before its arguments would run with none. Only the last one can be cut.
            if is_cut and place == len(calls) and not text.rstrip().endswith("}"):
                raise ValueError(CUT)
            valid.append({"id": call_id, "name": name, "args": parse_arguments(text), "type": "tool_call"})
        except ValueError as problem:
            invalid.append(
                {
                    "id": call_id,
                    "name": name,
                    "args": text,
                    "error": str(problem),
                    "type": "invalid_tool_call",
                }
            )
    return AIMessage(content=content, tool_calls=valid, invalid_tool_calls=invalid, **fields)


def parse_arguments(text: str) -> dict[str, Any]:
    """A tool call's arguments. Empty text means none.

    Raises:
        ValueError: not JSON, or not an object; the message is meant for the model.
    """
    if not text.strip():
        return {}
    try:
        value = strict_json(text)
    except ValueError as problem:
        raise ValueError(f"the arguments are not valid JSON: {problem}") from None
    if not isinstance(value, dict):
        raise ValueError(f"the arguments must be a JSON object, not {_JSON_NAMES[type(value)]}")
    return value


def with_readable_calls(message: AIMessage) -> AIMessage:
    """An answer that a program made, in which no valid call has arguments that ``parse_arguments`` would refuse."""
    found = {
        place: problem
        for place, call in enumerate(message.tool_calls)
        if (problem := json_problem(call["args"])) is not None
    }
    if not found:
        return message
    refused: list[InvalidToolCall] = [
        {
            "id": call["id"],
            "name": call["name"],
            "args": _as_text(call["args"]),
            "error": f"the arguments are not valid JSON: {found[place]}",
            "type": "invalid_tool_call",
        }
        for place, call in enumerate(message.tool_calls)
        if place in found
    ]
    kept = [call for place, call in enumerate(message.tool_calls) if place not in found]
    invalid = [*message.invalid_tool_calls, *refused]
    return message.model_copy(update={"tool_calls": kept, "invalid_tool_calls": invalid})


def _as_text(arguments: Any) -> str:
    """Arguments as a model might have written them; empty if they have no text, such as those nested too deeply."""
    try:
        return json.dumps(arguments, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        return ""


_JSON_NAMES: Final = {
    list: "an array",
    str: "a string",
    int: "a number",
    float: "a number",
    bool: "a boolean",
    type(None): "null",
}


def _role(message: BaseMessage) -> str:
    role = _ROLES.get(message.type)
    if role is None:
        raise TypeError(f"a conversation cannot hold a message of type {message.type!r}")
    return role
