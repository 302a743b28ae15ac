"""The quantities of a request, each of which costs a provider's own number of tokens.

The counter multiplies them by the costs of ``fitted.json``; ``scripts/fit_tokens.py`` fits those costs from the same
quantities, so the two cannot disagree.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
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
    "object": "each object inside a tool's parameters, at any depth",
    "forced": "a tool call being required, on top of ``tools``",
    "thinking": "reasoning being asked for, by a budget or an effort",
    "output": "an answer in the form of a JSON schema, around it",
    "output_text": "each token of that schema as JSON",
}
"""The quantities, with a description of one unit of each."""


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
    """The reported tokens of an answer, without those of its readable text, are the cost of its signatures."""
    if not characters:
        return
    if usage := message.usage_metadata:
        terms["hidden_reasoning"] = max(0.0, usage["output_tokens"] - terms["text"])
    else:
        terms["signature"] = characters


def _reasoning(extra: Mapping[str, Any]) -> str:
    """Readable reasoning; blocks, where there are any, contain all of it."""
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
    shown = [each.parameters for each in schemas]
    if notation == "declaration":
        shown = [written_out(each, _UNROLLED) for each in shown]
    objects = [each for parameters in shown for each in _objects(parameters)]
    return {
        "tools": 1,
        "tool": len(schemas),
        "schema_text": sum(count(write(schema)) for schema in schemas),
        "parameter": sum(len(each["properties"]) for each in objects),
        # Without each tool's outermost object, which is part of `tool`.
        "object": sum(bool(each["properties"]) for each in objects) - sum(map(_has_properties, shown)),
    }


def fixed_terms(system: str, settings: Mapping[str, Any], count: Count, *, tools: bool) -> Terms:
    """The quantities of a request other than its tools and messages.

    Args:
        system: the system prompt.
        settings: per-call settings; ``tool_choice``, ``response_format``, ``thinking`` and ``reasoning_effort`` cost
            tokens.
        count: the tokens of a text.
        tools: whether the request has tools.
    """
    terms: Terms = {"request": 1}
    if system:
        terms |= {"system": 1, "text": count(system)}
    if tools and settings.get("tool_choice") not in (None, "auto", "none"):
        terms["forced"] = 1
    if _asks_for_reasoning(settings):
        terms["thinking"] = 1
    form = settings.get("response_format")
    if isinstance(form, Mapping) and form.get("type") == "json_schema":
        terms |= {"output": 1, "output_text": count(compact(form.get("json_schema")))}
    return terms


def _asks_for_reasoning(settings: Mapping[str, Any]) -> bool:
    thinking = settings.get("thinking")
    budget = isinstance(thinking, Mapping) and thinking.get("type") == "enabled"
    return budget or settings.get("reasoning_effort") not in (None, "none")


_ATTACHED: Final = ("image", "image_url", "input_image", "audio", "input_audio", "video", "file", "document")
_UNSHOWN: Final = ("thinking", "redacted_thinking", *_ATTACHED)


def _is_attachment(block: str | Mapping[str, Any]) -> bool:
    return not isinstance(block, str) and block.get("type") in _ATTACHED and "text" not in block


def content_text(content: str | Sequence[str | Mapping[str, Any]]) -> str:
    """The texts of a message's content, joined.

    Attachments and reasoning are left out, because their costs are counted separately. Other blocks are written as
    JSON.
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


def declaration(schema: ToolSchema) -> str:
    """A tool as Google declares it: JSON with references replaced, without keys that its declarations lack."""
    written = written_out(schema.parameters, _UNROLLED)
    parameters = {"parameters": written} if written.get("properties") else {}
    return compact({"name": schema.name, "description": schema.description, **parameters})


_UNDECLARED: Final = ("additionalProperties", "title", "$schema", "$defs", "definitions")

_UNROLLED: Final = 7
"""How often Google writes a schema that refers to itself inside itself. Its reference says "to a limited degree"; this
number comes from a recorded request."""

_MOST_REFERENCES: Final = 300
"""The limit per tool: schemas that refer to themselves in several places would grow without end."""

_DEEPEST: Final = 12


def written_out(schema: Mapping[str, Any], unrolled: int) -> dict[str, Any]:
    """``schema`` with each reference replaced by its target, and without keys that no provider shows.

    Args:
        schema: the JSON schema of a tool's parameters.
        unrolled: how often the same reference is written inside itself.
    """
    left = _MOST_REFERENCES

    def written(part: Any, inside: tuple[str, ...]) -> Any:
        nonlocal left
        if isinstance(part, list):
            return [written(each, inside) for each in part]
        if not isinstance(part, Mapping):
            return part
        if isinstance(reference := part.get("$ref"), str):
            target = _resolve(reference, schema)
            # The count alone is not enough: schemas may refer to each other in a long circle.
            endless = inside.count(reference) >= unrolled or len(inside) >= _DEEPEST
            if endless or left <= 0 or not isinstance(target, Mapping):
                return {"type": "object"}
            left -= 1
            beside = {name: value for name, value in part.items() if name != "$ref"}
            return written({**target, **beside}, (*inside, reference))
        return {
            name: {each: written(value, inside) for each, value in inner.items()}
            if name == "properties" and isinstance(inner, Mapping)
            else written(inner, inside)
            for name, inner in part.items()
            if name not in _UNDECLARED
        }

    whole: dict[str, Any] = written(schema, ())
    return whole


def _objects(schema: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(schema, Mapping):
        if isinstance(schema.get("properties"), Mapping):
            yield schema
        schema = list(schema.values())
    if isinstance(schema, list):
        for each in schema:
            yield from _objects(each)


def _has_properties(schema: Mapping[str, Any]) -> bool:
    return bool(schema.get("properties"))


def typescript(schema: ToolSchema) -> str:
    """A tool as a TypeScript type, which is the form that OpenAI's models see."""
    parameters = written_out(schema.parameters, 1)
    comment, inner = _comment(schema.description), _comment(parameters.get("description"))
    if not parameters.get("properties"):
        return f"{comment}type {schema.name} = () => any;\n\n"
    return f"{comment}type {schema.name} = (_: {inner}{{\n{_members(parameters)}}}) => any;\n\n"


def _comment(description: Any) -> str:
    return "".join(f"// {line}\n" for line in str(description or "").splitlines())


def _members(schema: Mapping[str, Any]) -> str:
    required = schema.get("required") or ()
    lines = []
    for name, each in schema["properties"].items():
        each = each if isinstance(each, Mapping) else {}
        lines.append(_comment(each.get("description")))
        mark = "" if name in required else "?"
        default = f", // default: {compact(each['default'])}" if "default" in each else ","
        lines.append(f"{name}{mark}: {_type(each)}{default}\n")
    return "".join(lines)


def _type(schema: Any) -> str:
    if not isinstance(schema, Mapping):
        return "any"
    if isinstance(values := schema.get("enum"), list):
        return " | ".join(map(compact, values))
    if "const" in schema:
        return compact(schema["const"])
    for union in ("anyOf", "oneOf"):
        if isinstance(choices := schema.get(union), list):
            return " | ".join(map(_type, choices))
    kind = schema.get("type")
    if isinstance(kind, list):
        return " | ".join(map(str, kind))
    if kind == "array":
        return f"{_type(schema.get('items'))}[]"
    if isinstance(schema.get("properties"), Mapping) and schema["properties"]:
        return f"{{\n{_members(schema)}}}"
    return {"integer": "number"}.get(str(kind), str(kind or "any"))


def _resolve(reference: str, root: Mapping[str, Any]) -> Any:
    found: Any = root
    for part in filter(None, reference.removeprefix("#").split("/")):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found
