"""A client's conversation in one form, whichever API it came by."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from zeus_plugins.protocols.openai.errors import BadRequestError

APPROVAL: Final = "mcpr_"
"""How the ids of approval requests begin in the responses API."""
ASKED: Final = "zeus_"
"""How the ids of calls of ``APPROVAL_TOOL`` begin."""
APPROVAL_TOOL: Final = "zeus_approval"
"""A function of this name, if the client has it, is called with each call that waits for a decision."""
_RESPONSE: Final = frozenset({"type", "id", "approval_request_id", "approve", "reason"})
"""The members of a decision in the responses API."""
LINES: Final = "zeus_lines"
"""Beside the arguments of a waiting call: the text of the question, with the change that the call would make."""


@dataclass(frozen=True)
class Call:
    """A call in an answer, of a tool of the client or of ``APPROVAL_TOOL``, or an approval request."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class ClientMessage:
    """One message.

    Args:
        role: ``tool`` for the result of a call.
        text: its text.
        calls: the calls of an answer.
        call: the id of the call whose result it is.
    """

    role: Literal["user", "assistant", "tool"]
    text: str
    calls: tuple[Call, ...] = ()
    call: str = ""


@dataclass(frozen=True)
class ClientConversation:
    """The messages that a client sent.

    Args:
        messages: without instructions; no two answers follow each other.
        instructions: the texts of system and developer messages.
    """

    messages: tuple[ClientMessage, ...]
    instructions: str = ""

    @property
    def answered(self) -> tuple[ClientMessage, ...]:
        """The messages up to the last answer."""
        last = [place for place, each in enumerate(self.messages) if each.role == "assistant"]
        return self.messages[: last[-1] + 1] if last else ()

    @property
    def new(self) -> tuple[ClientMessage, ...]:
        """The messages after the last answer."""
        return self.messages[len(self.answered) :]


def of_chat(messages: Any) -> ClientConversation:
    """The messages of a chat completion.

    Raises:
        BadRequestError: they are not valid.
    """
    if not isinstance(messages, list) or not messages:
        raise BadRequestError("messages must be a list with at least one message", param="messages")
    instructions: list[str] = []
    found: list[ClientMessage] = []
    for place, each in enumerate(messages):
        where = f"messages[{place}]"
        role = _mapping(each, where).get("role")
        text = _text(each.get("content"), f"{where}.content")
        if role in ("system", "developer"):
            instructions.append(text)
        elif role == "user":
            found.append(ClientMessage("user", text))
        elif role == "assistant":
            calls = each.get("tool_calls") or []
            if not isinstance(calls, list):
                raise BadRequestError("tool_calls must be a list", param=f"{where}.tool_calls")
            found.append(
                ClientMessage(
                    "assistant", text, tuple(_chat_call(one, f"{where}.tool_calls") for one in calls)
                )
            )
        elif role == "tool":
            found.append(
                ClientMessage("tool", text, call=_string(each.get("tool_call_id"), f"{where}.tool_call_id"))
            )
        else:
            raise BadRequestError(f"the role {role!r} is not supported", param=f"{where}.role")
    return ClientConversation(_joined(found), "\n\n".join(filter(None, instructions)))


def of_items(given: Any, instructions: Any) -> ClientConversation:
    """The input of a response.

    Raises:
        BadRequestError: it is not valid.
    """
    if instructions is not None and not isinstance(instructions, str):
        raise BadRequestError("instructions must be a text", param="instructions")
    texts = [instructions] if instructions else []
    if isinstance(given, str):
        given = [{"role": "user", "content": given}]
    if not isinstance(given, list) or not given:
        raise BadRequestError("input must be a text or a list with at least one item", param="input")
    found: list[ClientMessage] = []
    for place, each in enumerate(given):
        where = f"input[{place}]"
        kind = _mapping(each, where).get("type") or "message"
        role = each.get("role")
        if kind == "message" and role in ("system", "developer"):
            texts.append(_text(each.get("content"), f"{where}.content"))
        elif kind == "message" and role in ("user", "assistant"):
            found.append(ClientMessage(role, _text(each.get("content"), f"{where}.content")))
        elif kind == "function_call":
            call = Call(_string(each.get("call_id"), f"{where}.call_id"), *_function(each, where))
            # A response's text and its calls are items beside each other; `_joined` puts them together again.
            found.append(ClientMessage("assistant", "", (call,)))
        elif kind == "mcp_approval_request":
            call = Call(_string(each.get("id"), f"{where}.id"), *_function(each, where))
            found.append(ClientMessage("assistant", "", (call,)))
        elif kind == "function_call_output":
            text = _text(each.get("output"), f"{where}.output")
            found.append(ClientMessage("tool", text, call=_string(each.get("call_id"), f"{where}.call_id")))
        elif kind == "mcp_approval_response":
            # What is not read here, such as other arguments, must not seem to be approved.
            if unknown := sorted(map(str, each.keys() - _RESPONSE)):
                raise BadRequestError(f"{where} has no {unknown[0]!r}", param=f"{where}.{unknown[0]}")
            if not isinstance(each.get("approve"), bool):
                raise BadRequestError(
                    f"{where}.approve must be true or false: nothing was decided", param=f"{where}.approve"
                )
            answer = {"decision": "approve" if each["approve"] else "reject"}
            if each.get("reason"):
                answer["reason"] = _string(each["reason"], f"{where}.reason")
            name = _string(each.get("approval_request_id"), f"{where}.approval_request_id")
            found.append(ClientMessage("tool", json.dumps(answer), call=name))
        elif kind != "reasoning":
            raise BadRequestError(f"the item type {kind!r} is not supported", param=f"{where}.type")
    return ClientConversation(_joined(found), "\n\n".join(texts))


def mark(agent: str, messages: Sequence[ClientMessage]) -> str:
    """A name for a conversation that ends with an answer: the same for the same texts, calls and results."""
    told = [
        # Clients trim texts and write a call's JSON anew, so neither may count.
        [each.role, each.text.strip(), each.call, [[one.id, one.name, _canonical(one)] for one in each.calls]]
        for each in messages
    ]
    # As one JSON value: joined texts of two different conversations could be equal.
    text = json.dumps([agent, told], ensure_ascii=False, separators=(",", ":"))
    return "openai:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def transcript(messages: Iterable[ClientMessage]) -> str:
    """A conversation as one text, for a session that has not seen it."""
    lines = []
    for each in messages:
        if each.text.strip():
            lines.append(f"{each.role}: {each.text}")
        lines += [f"{each.role} calls {one.name} with {one.arguments}" for one in each.calls]
    return "\n\n".join(lines)


def _joined(messages: Iterable[ClientMessage]) -> tuple[ClientMessage, ...]:
    """The messages, with the parts of one answer put together."""
    joined: list[ClientMessage] = []
    for each in messages:
        if joined and each.role == joined[-1].role == "assistant":
            former = joined[-1]
            text = "\n\n".join(filter(None, (former.text, each.text)))
            joined[-1] = replace(former, text=text, calls=(*former.calls, *each.calls))
        else:
            joined.append(each)
    return tuple(joined)


def _canonical(call: Call) -> str:
    try:
        return json.dumps(json.loads(call.arguments or "{}"), sort_keys=True, separators=(",", ":"))
    except ValueError:
        return call.arguments


def _chat_call(given: Any, where: str) -> Call:
    each = _mapping(given, where)
    name = _string(each.get("id"), f"{where}.id")
    return Call(name, *_function(_mapping(each.get("function"), f"{where}.function"), where))


def _function(each: Mapping[str, Any], where: str) -> tuple[str, str]:
    arguments = each.get("arguments") or "{}"
    return _string(each.get("name"), f"{where}.name"), _string(arguments, f"{where}.arguments")


def _mapping(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise BadRequestError("an object is expected here", param=where)
    return value


def _string(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise BadRequestError("a text is expected here", param=where)
    return value


_TEXTS: Final = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}


def _text(content: Any, where: str) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise BadRequestError("a text or a list of parts is expected here", param=where)
    texts = []
    for place, each in enumerate(content):
        part = _mapping(each, f"{where}[{place}]")
        kind = part.get("type")
        if kind not in _TEXTS:
            raise BadRequestError(
                f"parts of the type {kind!r} are not supported; send text", param=f"{where}[{place}].type"
            )
        texts.append(str(part.get(_TEXTS[kind], "")))
    return "".join(texts)
