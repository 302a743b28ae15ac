"""What a request consists of, as quantities that each cost a provider's own number of tokens.

The counter multiplies them with the costs of ``fitted.json``; ``scripts/fit_tokens.py`` finds those costs from the same
quantities, so the two cannot disagree.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from zeus_runtime.models.interface import ToolSchema
from zeus_runtime.models.messages import TOOL_CALL_FIELDS

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

Count: TypeAlias = Callable[[str], float]
Terms: TypeAlias = dict[str, float]

TERMS: Final = {
    "request": "every request",
    "system": "a system prompt, around its text",
    "text": "each token of text: system prompt, messages, results, a call's name and its arguments as JSON",
    "attachment": "each image, sound or file in a message, whatever its size",
    "user": "each user message, around its text",
    "assistant": "each answer, around its text and calls",
    "call": "each tool call, around name and arguments",
    "argument": "each argument of a call",
    "result": "each tool result, around its text",
    "reasoning_text": "each token of readable reasoning that goes back with a call",
    "signature": "each character of signed reasoning that goes back, where its size is not known better",
    "hidden_reasoning": "each token of signed reasoning that goes back, as the provider counted it",
    "tools": "having tools: what the provider explains about calling them",
    "tool": "each tool, around its schema",
    "schema_text": "each token of a tool's schema as the provider writes it",
    "parameter": "each parameter of a tool, at any depth",
    "forced": "a tool call being required, on top of ``tools``",
    "output": "an answer in the form of a JSON schema, around it",
    "output_text": "each token of that schema as JSON",
}
"""The quantities, and what one of each is."""


def message_terms(message: BaseMessage, count: Count) -> Terms:
    """The quantities of one message."""
    text = content_text(message.content)
    terms: Terms = {"text": count(text) if text else 0.0}
    if not isinstance(message.content, str):
        terms["attachment"] = sum(map(_is_attachment, message.content))
    if message.type == "human" or message.type == "HumanMessageChunk":
        terms["user"] = 1
    elif message.type == "tool":
        terms["result"] = 1
    else:
        terms["assistant"] = 1
        _add_calls(terms, message, count)
    return terms


def _add_calls(terms: Terms, message: Any, count: Count) -> None:
    calls = getattr(message, "tool_calls", None) or ()
    invalid = getattr(message, "invalid_tool_calls", None) or ()
    extra = message.additional_kwargs
    if calls or invalid:
        terms["call"] = len(calls) + len(invalid)
        terms["argument"] = sum(len(call["args"]) for call in calls) + len(invalid)
        written = [call["name"] + compact(call["args"]) for call in calls]
        written += [f"{call['name'] or ''}{call['args'] or ''}" for call in invalid]
        terms["text"] += sum(map(count, written))
    if extra:
        reasoning = _reasoning(extra) if calls else ""
        if reasoning:
            terms["reasoning_text"] = count(reasoning)
        _add_signatures(terms, message, _signature_characters(extra))


def _add_signatures(terms: Terms, message: Any, characters: int) -> None:
    """What was reported for the answer, less what can be read of it, is what its signatures stand for."""
    if not characters:
        return
    if usage := message.usage_metadata:
        terms["hidden_reasoning"] = max(0.0, usage["output_tokens"] - terms["text"])
    else:
        terms["signature"] = characters


def _reasoning(extra: Mapping[str, Any]) -> str:
    """Readable reasoning; the blocks, where there are some, say it all."""
    blocks = extra.get("thinking_blocks")
    if blocks:
        return "".join(str(block.get("thinking") or "") for block in blocks)
    return str(extra.get("reasoning_content") or "")


def _signature_characters(extra: Mapping[str, Any]) -> int:
    fields = [extra.get("provider_specific_fields"), *(extra.get(TOOL_CALL_FIELDS) or {}).values()]
    signatures = [
        *(each.get("thought_signature") for each in fields if each),
        *(one for each in fields if each for one in each.get("thought_signatures") or ()),
    ]
    return sum(len(each) for each in signatures if isinstance(each, str))


def tools_terms(schemas: Sequence[ToolSchema], count: Count, notation: str) -> Terms:
    """The quantities of a list of tools; empty for none.

    Args:
        schemas: the tools.
        count: the tokens of a text.
        notation: how the provider writes a schema: ``typescript``, ``json`` or ``declaration``.
    """
    if not schemas:
        return {}
    write = {"typescript": typescript, "json": json_schema, "declaration": declaration}[notation]
    return {
        "tools": 1,
        "tool": len(schemas),
        "schema_text": sum(count(write(schema)) for schema in schemas),
        "parameter": sum(_parameters(schema.parameters) for schema in schemas),
    }


def fixed_terms(system: str, settings: Mapping[str, Any], count: Count, *, tools: bool) -> Terms:
    """The quantities of a request besides its tools and messages.

    Args:
        system: the system prompt.
        settings: per-call settings; ``tool_choice`` and ``response_format`` take tokens.
        count: the tokens of a text.
        tools: whether the request has tools.
    """
    terms: Terms = {"request": 1}
    if system:
        terms |= {"system": 1, "text": count(system)}
    if tools and settings.get("tool_choice") not in (None, "auto", "none"):
        terms["forced"] = 1
    form = settings.get("response_format")
    if isinstance(form, Mapping) and form.get("type") == "json_schema":
        terms |= {"output": 1, "output_text": count(compact(form.get("json_schema")))}
    return terms


_ATTACHED: Final = ("image", "image_url", "input_image", "audio", "input_audio", "video", "file", "document")
_UNSHOWN: Final = ("thinking", "redacted_thinking", *_ATTACHED)


def _is_attachment(block: str | Mapping[str, Any]) -> bool:
    return not isinstance(block, str) and block.get("type") in _ATTACHED and "text" not in block


def content_text(content: str | Sequence[str | Mapping[str, Any]]) -> str:
    """The texts of a message's content, joined.

    Attachments and reasoning are left out: they have costs of their own. Other blocks are written as JSON.
    """
    if isinstance(content, str):
        return content
    return "".join(
        block if isinstance(block, str) else str(block["text"]) if "text" in block else compact(block)
        for block in content
        if isinstance(block, str) or "text" in block or block.get("type") not in _UNSHOWN
    )


def compact(value: Any) -> str:
    """``value`` as JSON without blanks."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def json_schema(schema: ToolSchema) -> str:
    """A tool as JSON."""
    return compact({"name": schema.name, "description": schema.description, "parameters": schema.parameters})


_UNDECLARED: Final = ("additionalProperties", "title", "$schema")


def declaration(schema: ToolSchema) -> str:
    """A tool as Google declares it: JSON without what its declarations have no field for."""
    properties = schema.parameters.get("properties")
    parameters = {"parameters": _declared(schema.parameters)} if properties else {}
    return compact({"name": schema.name, "description": schema.description, **parameters})


def _declared(schema: Any) -> Any:
    if isinstance(schema, Mapping):
        return {
            name: {each: _declared(value) for each, value in inner.items()}
            if name == "properties" and isinstance(inner, Mapping)
            else _declared(inner)
            for name, inner in schema.items()
            if name not in _UNDECLARED
        }
    return [_declared(each) for each in schema] if isinstance(schema, list) else schema


def _parameters(schema: Any) -> int:
    if isinstance(schema, Mapping):
        properties = schema.get("properties")
        named = len(properties) if isinstance(properties, Mapping) else 0
        return named + sum(_parameters(each) for each in schema.values())
    if isinstance(schema, list):
        return sum(_parameters(each) for each in schema)
    return 0


def typescript(schema: ToolSchema) -> str:
    """A tool as a TypeScript type, which is how OpenAI's models are shown it."""
    comment = "".join(f"// {line}\n" for line in schema.description.splitlines())
    properties = schema.parameters.get("properties") or {}
    if not properties:
        return f"{comment}type {schema.name} = () => any;\n\n"
    body = _members(schema.parameters, schema.parameters, 0)
    return f"{comment}type {schema.name} = (_: {{\n{body}}}) => any;\n\n"


_DEEPEST: Final = 12


def _members(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> str:
    required = schema.get("required") or ()
    lines = []
    for name, each in (schema.get("properties") or {}).items():
        each = each if isinstance(each, Mapping) else {}
        lines += [f"// {line}\n" for line in str(each.get("description") or "").splitlines()]
        mark = "" if name in required else "?"
        default = f", // default: {compact(each['default'])}" if "default" in each else ","
        lines.append(f"{name}{mark}: {_type(each, root, depth)}{default}\n")
    return "".join(lines)


def _type(schema: Any, root: Mapping[str, Any], depth: int) -> str:
    if not isinstance(schema, Mapping) or depth > _DEEPEST:
        return "any"
    if isinstance(reference := schema.get("$ref"), str):
        return _type(_resolve(reference, root), root, depth + 1)
    if isinstance(values := schema.get("enum"), list):
        return " | ".join(map(compact, values))
    if "const" in schema:
        return compact(schema["const"])
    for union in ("anyOf", "oneOf"):
        if isinstance(choices := schema.get(union), list):
            return " | ".join(_type(each, root, depth + 1) for each in choices)
    kind = schema.get("type")
    if isinstance(kind, list):
        return " | ".join(map(str, kind))
    if kind == "array":
        return f"{_type(schema.get('items'), root, depth + 1)}[]"
    if schema.get("properties"):
        return f"{{\n{_members(schema, root, depth + 1)}}}"
    return {"integer": "number"}.get(str(kind), str(kind or "any"))


def _resolve(reference: str, root: Mapping[str, Any]) -> Any:
    found: Any = root
    for part in reference.removeprefix("#/").split("/"):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found
