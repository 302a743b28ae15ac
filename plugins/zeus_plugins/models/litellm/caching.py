"""Converts cache points to the `cache_control` marks that litellm passes to Anthropic, Bedrock and others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zeus_runtime.plugin.model import ModelRequest


def marked(
    request: ModelRequest, chat: list[dict[str, Any]], tools: list[dict[str, Any]]
) -> dict[str, list[dict[str, Any]]]:
    """Return ``messages`` and ``tools`` of the call with marks at the request's cache points.

    The system prompt is split at the end of its stable part; the two parts join to the same text.

    Args:
        chat: the messages in litellm's form, with the system prompt first if there is one.
        tools: the tools in litellm's form.
    """
    points = request.cache_points
    if points is None:
        return {"messages": chat, "tools": tools}
    # Five minutes is the providers' default, and older models refuse the parameter.
    mark = {"type": "ephemeral"} if points.lifetime == "5m" else {"type": "ephemeral", "ttl": points.lifetime}
    if points.tools and tools:
        tools[-1]["cache_control"] = mark
    offset = 1 if request.system else 0
    if points.system and offset and request.stable_system_length:
        chat[0]["content"] = _system(request.system, request.stable_system_length, mark)
    for index in points.messages:
        _mark(chat[offset + index], mark)
    return {"messages": chat, "tools": tools}


def _system(text: str, stable: int, mark: dict[str, str]) -> list[dict[str, Any]]:
    halves = [text[:stable], text[stable:]]
    blocks: list[dict[str, Any]] = [{"type": "text", "text": half} for half in halves if half]
    blocks[0]["cache_control"] = mark
    return blocks


def _mark(message: dict[str, Any], mark: dict[str, str]) -> None:
    """Mark a message's last block. A result is marked as a whole; empty text is not marked: Anthropic refuses it."""
    if message["role"] == "tool":
        message["cache_control"] = mark
        return
    content = message["content"]
    if isinstance(content, str):
        if content:
            message["content"] = [{"type": "text", "text": content, "cache_control": mark}]
        return
    *before, last = content or [None]
    if isinstance(last, dict):
        message["content"] = [*before, {**last, "cache_control": mark}]
