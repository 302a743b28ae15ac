"""Anthropic's messages: the body of a request from that of chat completions, and the chunks of an answer. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, takewhile
from json import loads
from typing import Any, Final

from zeus_plugins.models.litellm.native.chat import StreamedError, object_in, reason_in
from zeus_plugins.models.litellm.native.choice import Served
from zeus_plugins.models.litellm.reading import anthropics_usage, delta_of, usage_of

VERSION: Final = "2023-06-01"
PATH: Final = "/v1/messages"

FORM_BETA: Final = "structured-outputs-2025-11-13"
"""The header's value with which Anthropic takes ``output_format``."""

_THINKING_ANSWER_TOKENS: Final = 4096
"""Tokens of the answer beside the budget for thinking, if no maximum is set; litellm's number."""

_EMPTY: Final = "[This message has no text.]"
"""Sent for an empty text, which Anthropic refuses."""

_NO_TOOL: Final = {
    "type": "custom",
    "name": "no_tool",
    "description": "No tool can be called now.",
    "input_schema": {"type": "object", "properties": {}},
}
"""Sent with calls in the conversation and no tools, which Anthropic refuses."""

_SCHEMA: Final = frozenset({"type", "properties", "additionalProperties", "required", "$defs", "strict"})
"""The keys of a tool's parameters that litellm sends."""

_SENT_AS_IT_IS: Final = ("temperature", "top_p", "thinking")
_CHOICES: Final = {"auto": "auto", "required": "any", "none": "none"}
_NO_ID_SIGN: Final = re.compile(r"[^a-zA-Z0-9_-]")
_NO_ID: Final = "tool_use_id"
_UNREADABLE: Final = "litellm_encrypted_reasoning:"
"""The beginning of a signature that litellm makes of another provider's reasoning."""


def url_of(base: str) -> str:
    """Return the address of the call; an address that ends with its path stays as it is."""
    return base if base.endswith(PATH) else f"{base}{PATH}"


def body_of(served: Served, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a request.

    Args:
        served: the model and its server.
        arguments: messages, tools and settings in the form of chat completions.
    """
    chat = arguments["messages"]
    leading = list(takewhile(lambda message: message["role"] == "system", chat))
    tools = [_tool(each) for each in arguments.get("tools", ())]
    if not tools and any("tool_calls" in message for message in chat):
        tools = [_NO_TOOL]
    fields = {
        "system": [block for message in leading for block in _texts(message["content"])],
        "tools": tools,
        "tool_choice": _tool_choice(arguments),
        "stop_sequences": _stops(arguments.get("stop")),
        "output_format": _form(arguments.get("response_format")),
        "metadata": {"user_id": arguments["user"]} if "user" in arguments else None,
        "stream": arguments.get("stream") or None,
        **{key: arguments.get(key) for key in _SENT_AS_IT_IS},
    }
    if effort := arguments.get("reasoning_effort"):
        # Without `display` the newer models leave the text of their thoughts empty.
        fields["thinking"] = {"type": "adaptive", "display": "summarized"}
        fields["output_config"] = {"effort": effort}
    return {
        "model": served.name,
        "messages": _turns(chat[len(leading) :]),
        "max_tokens": _most_tokens(served, arguments),
        **{key: value for key, value in fields.items() if value not in (None, [])},
    }


def _most_tokens(served: Served, arguments: Mapping[str, Any]) -> int | None:
    for key in ("max_completion_tokens", "max_tokens"):
        if key in arguments:
            return int(arguments[key])
    budget = arguments.get("thinking", {}).get("budget_tokens")
    return served.most_tokens if budget is None else budget + _THINKING_ANSWER_TOKENS


def _form(asked: Any) -> dict[str, Any] | None:
    return None if asked is None else {"type": "json_schema", "schema": asked["json_schema"]["schema"]}


def _stops(stop: Any) -> list[str] | None:
    return [stop] if isinstance(stop, str) else stop


def _tool_choice(arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    asked, parallel = arguments.get("tool_choice"), arguments.get("parallel_tool_calls")
    if asked is None and parallel is None:
        return None
    if isinstance(asked, Mapping):
        choice: dict[str, Any] = {"type": "tool", "name": asked["function"]["name"]}
    else:
        choice = {"type": _CHOICES[asked or "auto"]}
    if parallel is not None and asked != "none":
        choice["disable_parallel_tool_use"] = not parallel
    return choice


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    function = tool["function"]
    schema = {"properties": {}, **function["parameters"], "type": "object"}
    made = {
        "type": "custom",
        "name": function["name"],
        "description": function["description"],
        "input_schema": {key: value for key, value in schema.items() if key in _SCHEMA},
    }
    return _with_mark(made, tool)


def _turns(chat: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the turns: messages of one side are one turn, and results of tools are the user's."""
    turns: list[dict[str, Any]] = []
    for is_answer, messages in groupby(chat, key=lambda message: message["role"] == "assistant"):
        role, blocks_of = ("assistant", _answered) if is_answer else ("user", _asked)
        if content := list(blocks_of(messages)):
            turns.append({"role": role, "content": content})
    if turns and turns[-1]["role"] == "assistant":
        turns[-1]["content"] = [_without_end(block) for block in turns[-1]["content"]]
    return turns


def _asked(messages: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for message in messages:
        content = message["content"]
        if message["role"] == "user":
            yield from _parts(_filled(content))
            continue
        result = {
            "type": "tool_result",
            "tool_use_id": _sendable_id(message["tool_call_id"]),
            "content": content if isinstance(content, str) else list(_parts(content)),
        }
        yield _with_mark(result, message)


def _answered(messages: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the blocks of answers that follow each other; a second call with the same id is left out."""
    ids = set[str]()
    for message in messages:
        yield from (block for block in message.get("thinking_blocks") or () if _is_readable(block))
        yield from _texts(_filled(message["content"]))
        for call in message.get("tool_calls", ()):
            call_id = _sendable_id(call["id"])
            if call_id not in ids:
                ids.add(call_id)
                function = call["function"]
                arguments = loads(function["arguments"])
                yield {"type": "tool_use", "id": call_id, "name": function["name"], "input": arguments}


def _is_readable(block: Mapping[str, Any]) -> bool:
    """Whether Anthropic can read a block: one with its signature, or a redacted one."""
    is_redacted = block.get("type") == "redacted_thinking"
    sign = block.get("data") if is_redacted else block.get("signature")
    if isinstance(sign, str) and sign.startswith(_UNREADABLE):
        return False
    return block.get("type") != "thinking" or (isinstance(sign, str) and bool(sign))


def _filled(content: Any) -> Any:
    """Return the content with a note for each empty text."""
    if isinstance(content, str):
        return content if content.strip() else _EMPTY
    if content is None:
        return None
    return [
        part if part.get("type") != "text" or part["text"].strip() else {**part, "text": _EMPTY}
        for part in content
    ]


def _texts(content: Any) -> Iterator[dict[str, Any]]:
    """Yield the blocks of a content without those that are empty."""
    return (block for block in _parts(content) if block.get("text") != "")


def _parts(content: Any) -> Iterator[dict[str, Any]]:
    if isinstance(content, str):
        yield {"type": "text", "text": content}
        return
    for part in content or ():
        if part["type"] == "text":
            yield _with_mark({"type": "text", "text": part["text"]}, part)
        else:
            yield _with_mark({"type": "image", "source": _source(part["image_url"]["url"])}, part)


def _source(url: str) -> dict[str, str]:
    if not url.startswith("data:"):
        return {"type": "url", "url": url}
    kind, _, data = url.removeprefix("data:").partition(";base64,")
    return {"type": "base64", "media_type": kind, "data": data}


def _with_mark(made: dict[str, Any], holder: Mapping[str, Any]) -> dict[str, Any]:
    mark = holder.get("cache_control")
    return made if mark is None else {**made, "cache_control": mark}


def _without_end(block: Mapping[str, Any]) -> dict[str, Any]:
    """Return the block without white space at the end of its text, which Anthropic refuses in the last message."""
    return {**block, "text": block["text"].rstrip()} if block["type"] == "text" else dict(block)


def _sendable_id(call_id: str) -> str:
    return _NO_ID_SIGN.sub("_", call_id) or _NO_ID


class MessagesReading:
    """Reads the events of one answer; each is read once."""

    def __init__(self) -> None:
        self._usage: dict[str, Any] = {}
        self._reports: list[Mapping[str, Any]] = []
        self._calls = -1
        self._block = _OpenBlock("")

    def chunk(self, data: str) -> dict[str, Any] | None:
        """Return the delta, finish reason and model in the data of one event; None for the last event.

        Raises:
            ValueError: it is not a JSON object.
            StreamedError: the provider reports an error.
        """
        event = object_in(data)
        match event.get("type"):
            case "message_stop":
                return None
            case "error":
                raise StreamedError(event)
            case "message_start":
                message = _mapping(event.get("message"))
                self._report(message.get("usage"))
                model = message.get("model")
                return {"model": model if isinstance(model, str) else ""}
            case "message_delta":
                self._report(event.get("usage"))
                return {"finish_reason": reason_in(_mapping(event.get("delta")).get("stop_reason") or "stop")}
            case "content_block_start":
                return {"delta": delta_of(self._begun(_mapping(event.get("content_block"))))}
            case "content_block_delta":
                return {"delta": delta_of(self._continued(_mapping(event.get("delta"))))}
            case "content_block_stop":
                return {"delta": delta_of(self._ended())}
        return {}

    def usage(self) -> Any:
        """Return the usage of the answer."""
        return usage_of(self._reports)

    def _report(self, usage: Any) -> None:
        """Note a usage: the last one may leave out what the first one had."""
        if isinstance(usage, Mapping):
            self._usage.update(usage)
            self._reports.append(anthropics_usage(self._usage))

    def _begun(self, block: Mapping[str, Any]) -> dict[str, Any]:
        self._block = _OpenBlock(str(block.get("type")))
        if self._block.kind == "text":
            return {"content": block.get("text")}
        if self._block.kind == "redacted_thinking":
            return {"thinking_blocks": [{"type": "redacted_thinking", "data": block.get("data")}]}
        if self._block.is_call:
            self._calls += 1
            return self._part("", call_id=block.get("id"), name=block.get("name"))
        return {}

    def _continued(self, delta: Mapping[str, Any]) -> dict[str, Any]:
        if "text" in delta:
            return {"content": delta["text"]}
        if "partial_json" in delta:
            arguments = delta["partial_json"]
            self._block.has_pieces = True
            self._block.has_arguments = self._block.has_arguments or bool(arguments)
            return self._part(arguments) if self._block.is_call else {}
        thought, signature = delta.get("thinking"), delta.get("signature")
        if thought:
            block = {"type": "thinking", "thinking": thought}
            return {"reasoning_content": thought, "thinking_blocks": [block]}
        if signature:
            return {"thinking_blocks": [{"type": "thinking", "thinking": "", "signature": signature}]}
        return {}

    def _ended(self) -> dict[str, Any]:
        block, self._block = self._block, _OpenBlock("")
        # A tool without parameters streams one empty piece, and an empty text is not an object.
        is_empty = block.is_call and block.has_pieces and not block.has_arguments
        return self._part("{}") if is_empty else {}

    def _part(self, arguments: Any, *, call_id: Any = None, name: Any = None) -> dict[str, Any]:
        return {
            "tool_calls": [
                {"index": self._calls, "id": call_id, "function": {"name": name, "arguments": arguments}}
            ]
        }


class _OpenBlock:
    """The block of an answer that is being sent."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.is_call = kind in ("tool_use", "server_tool_use")
        self.has_pieces = False
        self.has_arguments = False


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
