"""Recorded provider requests as the requests that Zeus makes: what the token measurements read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from zeus_runtime.models.interface import ModelRequest, ToolSchema
from zeus_runtime.models.messages import assistant_message, from_chat
from zeus_runtime.models.profile_tables import MappingTable, litellm_table
from zeus_runtime.models.profiles import ModelProfile, lookup

_PROVIDERS: Final = {
    "api.openai.com": "openai",
    "api.anthropic.com": "anthropic",
    "generativelanguage.googleapis.com": "gemini",
    "aiplatform.googleapis.com": "vertex_ai",
    "openrouter.ai": "openrouter",
    "api.groq.com": "groq",
    "api.cerebras.ai": "cerebras",
    "api.mistral.ai": "mistral",
    "api.deepseek.com": "deepseek",
    "api.z.ai": "zai",
    "router.huggingface.co": "huggingface",
}
_GROUPS: Final = {
    "openai": "OpenAI",
    "azure": "OpenAI",
    "anthropic": "Anthropic",
    "gemini": "Google",
    "vertex_ai": "Google",
}


@dataclass(frozen=True)
class Recorded:
    """One recorded request.

    Args:
        file: the cassette it stands in.
        group: ``OpenAI``, ``Anthropic``, ``Google`` or ``other``: whose count it is.
        profile: the model, as a Zeus configuration would name it.
        request: what Zeus would send.
        input_tokens: what the provider counted.
        server_side: the provider adds what no client sees: its own tools, deferred tools, stored conversations.
    """

    file: str
    group: str
    profile: ModelProfile
    request: ModelRequest
    input_tokens: int
    server_side: bool


def read(path: Path) -> list[Recorded]:
    """Every request of a file with one JSON object per line."""
    table = MappingTable(litellm_table().rows())
    return [recorded(json.loads(line), table) for line in path.read_text("utf-8").splitlines() if line]


def recorded(row: Mapping[str, Any], table: MappingTable) -> Recorded:
    """One line of the file: ``file``, ``kind``, ``host``, ``model``, ``input_tokens`` and ``request`` as sent."""
    kind, host, body = row["kind"], row["host"], row["request"]
    provider = "azure" if host.endswith(".azure.com") else _PROVIDERS.get(host, host.partition(":")[0])
    profile = replace(
        lookup(f"{provider}/{_model(row)}", table=table),
        mode="responses" if kind == "openai.responses" else "chat",
    )
    return Recorded(
        file=row["file"],
        group=_GROUPS.get(provider, "other"),
        profile=profile,
        request=_READERS[kind](body),
        input_tokens=row["input_tokens"],
        server_side=_server_side(body),
    )


def _model(row: Mapping[str, Any]) -> str:
    """The model that answered: OpenRouter is told of others, and which providers may serve them."""
    named, others = str(row["model"]), row["request"].get("models") or ()
    makers = (row["request"].get("provider") or {}).get("only") or ()
    allowed = [each for each in (named, *others) if each.partition("/")[0].replace("-", "") in makers]
    return allowed[0] if allowed else named


_SERVER_FIELDS: Final = ("mcp_servers", "container", "conversation", "context_management", "moderation")
_CLIENT_ITEMS: Final = (
    None, "message", "function_call", "function_call_output", "reasoning", "text", "tool_use", "tool_result",
    "thinking", "redacted_thinking", "output_text", "input_text", "reasoning_text",
)  # fmt: skip
_SERVER_PARTS: Final = {"executableCode", "codeExecutionResult", "toolCall", "toolResponse"}


def _server_side(body: Mapping[str, Any]) -> bool:
    if any(body.get(name) for name in _SERVER_FIELDS) or "compound" in body.get("model", ""):
        return True
    if (body.get("reasoning") or {}).get("mode"):
        return True
    for tool in body.get("tools") or ():
        if tool.get("type") not in (None, "function", "custom") or tool.get("defer_loading"):
            return True
        if tool.get("type") is None and not {"functionDeclarations", "input_schema", "function"} & set(tool):
            return True
    turns = [*_items(body.get("input")), *_items(body.get("messages")), *_items(body.get("contents"))]
    for turn in turns:
        blocks = [turn, *_items(turn.get("content")), *_items(turn.get("parts"))]
        if any(block.get("type") not in _CLIENT_ITEMS or _SERVER_PARTS & set(block) for block in blocks):
            return True
    return False


def _items(value: Any) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _text(content: Any) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    return "".join(block.get("text") or "" for block in content if isinstance(block, dict))


def _openai_chat(body: Mapping[str, Any]) -> ModelRequest:
    messages = [from_chat({**each, "content": _sent(each.get("content"))}) for each in body["messages"]]
    system = [each for each in messages if each.type == "system"]
    schemas = [tool["function"] for tool in body.get("tools") or () if "function" in tool]
    return ModelRequest(
        system="\n\n".join(_text(each.content) for each in system),
        messages=[each for each in messages if each.type != "system"],
        tools=[_schema(each, each.get("parameters")) for each in schemas],
        settings=_settings(body),
    )


def _sent(content: Any) -> Any:
    """Mistral is sent an answer's thinking again, as blocks beside the text."""
    if not isinstance(content, list):
        return content
    return [
        {"type": "text", "text": _text(block["thinking"])} if block.get("type") == "thinking" else block
        for block in content
    ]


def _openai_responses(body: Mapping[str, Any]) -> ModelRequest:
    items = body["input"]
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    system = [body.get("instructions") or ""]
    messages: list[BaseMessage] = []
    for item in items:
        if item.get("role") in ("system", "developer"):
            system.append(_text(item.get("content")))
        elif item.get("role") == "user":
            messages.append(HumanMessage(_text(item.get("content"))))
        elif item.get("role") == "assistant":
            messages.append(AIMessage(_text(item.get("content"))))
        elif item.get("type") == "function_call":
            _add_call(messages, item["call_id"], item["name"], item["arguments"])
        elif item.get("type") == "function_call_output":
            messages.append(ToolMessage(_text(item["output"]), tool_call_id=item["call_id"]))
    schemas = [tool for tool in body.get("tools") or () if tool.get("type") == "function"]
    return ModelRequest(
        system="\n\n".join(each for each in system if each),
        messages=messages,
        tools=[_schema(each, each.get("parameters")) for each in schemas],
        settings=_settings(body),
    )


def _add_call(messages: list[BaseMessage], call_id: str, name: str, arguments: str) -> None:
    """The call joins the answer before it, as Zeus keeps it; else it is an answer without text."""
    last = messages[-1] if messages else None
    if isinstance(last, AIMessage):
        calls = [(each["id"], each["name"], json.dumps(each["args"])) for each in last.tool_calls]
        messages[-1] = assistant_message(last.content, [*calls, (call_id, name, arguments)])
    else:
        messages.append(assistant_message("", [(call_id, name, arguments)]))


def _anthropic(body: Mapping[str, Any]) -> ModelRequest:
    system = [_text(body.get("system"))]
    messages: list[BaseMessage] = []
    for turn in body["messages"]:
        if turn["role"] == "system":
            system.append(_text(turn["content"]))
        elif turn["role"] == "assistant":
            messages.append(_anthropic_answer(turn["content"]))
        else:
            messages += _anthropic_user(turn["content"])
    schemas = [tool for tool in body.get("tools") or () if "input_schema" in tool]
    return ModelRequest(
        system="\n\n".join(each for each in system if each),
        messages=messages,
        tools=[_schema(each, each["input_schema"]) for each in schemas if not each.get("defer_loading")],
        settings=_settings(body),
    )


def _anthropic_answer(content: Any) -> AIMessage:
    if isinstance(content, str):
        return AIMessage(content)
    calls = [
        (each["id"], each["name"], json.dumps(each["input"], ensure_ascii=False))
        for each in content
        if each.get("type") == "tool_use"
    ]
    thinking = [each for each in content if each.get("type") in ("thinking", "redacted_thinking")]
    extra = {"thinking_blocks": thinking} if thinking else {}
    return assistant_message(_text(content), calls, additional_kwargs=extra)


def _anthropic_user(content: Any) -> Iterator[BaseMessage]:
    if isinstance(content, str):
        yield HumanMessage(content)
        return
    for block in content:
        if block.get("type") == "tool_result":
            yield ToolMessage(_text(block.get("content")), tool_call_id=block["tool_use_id"])
        elif block.get("type") == "text":
            yield HumanMessage(block["text"])


def _google(body: Mapping[str, Any]) -> ModelRequest:
    messages: list[BaseMessage] = []
    for turn in body["contents"]:
        parts = turn["parts"]
        if turn.get("role") == "model":
            calls = [
                (each.get("id") or "", each["name"], json.dumps(each.get("args") or {}, ensure_ascii=False))
                for part in parts
                if (each := part.get("functionCall") or part.get("function_call"))
            ]
            messages.append(assistant_message(_text(parts), calls, additional_kwargs=_signatures(parts)))
            continue
        for part in parts:
            result = part.get("functionResponse") or part.get("function_response")
            if result:
                messages.append(_google_result(result))
            elif "text" in part:
                messages.append(HumanMessage(part["text"]))
    declared = [each for tool in body.get("tools") or () for each in tool.get("functionDeclarations") or ()]
    return ModelRequest(
        system=_text((body.get("systemInstruction") or {}).get("parts")),
        messages=messages,
        tools=[_schema(each, _parameters(each)) for each in declared],
        settings=_settings(body),
    )


def _signatures(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    found = [part.get("thoughtSignature") or part.get("thought_signature") for part in parts]
    signatures = [each for each in found if each]
    return {"provider_specific_fields": {"thought_signatures": signatures}} if signatures else {}


def _google_result(result: Mapping[str, Any]) -> ToolMessage:
    response = result["response"]
    bare = response.get("return_value", response.get("result", response.get("error", response)))
    text = bare if isinstance(bare, str) else json.dumps(bare, ensure_ascii=False)
    return ToolMessage(text, tool_call_id=result.get("id") or "", name=result["name"])


def _parameters(declaration: Mapping[str, Any]) -> Mapping[str, Any]:
    names = ("parametersJsonSchema", "parameters_json_schema", "parameters")
    return next((declaration[name] for name in names if declaration.get(name)), {})


def _schema(tool: Mapping[str, Any], parameters: Any) -> ToolSchema:
    return ToolSchema(tool["name"], tool.get("description") or "", parameters or {})


def _settings(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """What of the request's settings takes tokens, in the words of chat completions."""
    choice = body.get("tool_choice") or (body.get("toolConfig") or {}).get("functionCallingConfig") or "auto"
    if isinstance(choice, Mapping):
        choice = choice.get("type") or choice.get("mode") or "auto"
    settings: dict[str, Any] = (
        {} if choice.lower() in ("auto", "none", "validated") else {"tool_choice": "required"}
    )
    if thinking := body.get("thinking"):
        settings["thinking"] = thinking
    form = (body.get("text") or body.get("output_config") or {}).get("format") or body.get("response_format")
    generation = body.get("generationConfig") or {}
    schema = generation.get("responseJsonSchema") or generation.get("responseSchema")
    if schema or (form and form.get("type") == "json_schema"):
        shape = schema or form.get("json_schema") or form.get("schema")
        return {**settings, "response_format": {"type": "json_schema", "json_schema": shape}}
    return settings


_READERS: Final = {
    "openai.chat": _openai_chat,
    "openai.responses": _openai_responses,
    "anthropic.messages": _anthropic,
    "google.generate": _google,
}


def growing_pairs(requests: Sequence[Recorded]) -> Iterator[tuple[Recorded, Recorded]]:
    """(first, second) of each cassette where the second request is the first with messages added."""
    last: dict[str, Recorded] = {}
    for each in requests:
        before = last.get(each.file)
        if before is not None and _extends(before, each):
            yield before, each
        last[each.file] = each


def _extends(first: Recorded, second: Recorded) -> bool:
    before, after = first.request, second.request
    kept = list(map(_identity, after.messages[: len(before.messages)]))
    return (
        first.profile.name == second.profile.name
        and first.profile.mode == second.profile.mode
        and before.system == after.system
        and list(before.tools) == list(after.tools)
        and len(after.messages) > len(before.messages)
        and kept == list(map(_identity, before.messages))
    )


def _identity(message: BaseMessage) -> tuple[Any, ...]:
    return message.type, _text(message.content), str(getattr(message, "tool_calls", ""))


__all__ = ["Recorded", "growing_pairs", "read", "recorded"]
