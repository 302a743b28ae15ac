"""A stored conversation as text or JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime.cli.event_lines import whole_call
from zeus_runtime.columns import shortened
from zeus_runtime.models.content import FROM_RUNTIME, text_of
from zeus_runtime.models.pictures import pictures_of
from zeus_runtime.tools.question import tool_label

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

_WHO: Final = {"human": "you", "ai": "agent", "tool": "tool", "system": "system"}


def _author(message: BaseMessage) -> str:
    return "zeus" if FROM_RUNTIME in message.additional_kwargs else _WHO.get(message.type, message.type)


def transcript(messages: Sequence[BaseMessage], notes: Sequence[str] = ()) -> str:
    """Every message in full, under its author.

    Args:
        notes: a text beside the author, one for each message.
    """
    beside = notes or [""] * len(messages)
    return "\n\n".join(
        "\n".join(_lines(message, note)) for message, note in zip(messages, beside, strict=True)
    )


def tail(messages: Sequence[BaseMessage], width: int, most: int = 6) -> str:
    """The end of a conversation, a line of ``width`` columns for each of the last ``most`` things that were said."""
    said = [
        message
        for message in messages
        if message.type in ("human", "ai") and text_of(message).strip(" \t\r\n")
    ]
    left = f"({len(messages)} messages; the last {min(most, len(said))} said)"
    lines = [shortened(f"{_author(message)}: {text_of(message)}", width) for message in said[-most:]]
    return "\n".join([left, *lines])


def as_object(message: BaseMessage) -> dict[str, Any]:
    """A message as the JSON object it is stored as."""
    from zeus_runtime.models.messages import to_payload

    return dict(to_payload(message))


def _lines(message: BaseMessage, note: str) -> Iterator[str]:
    name = f" {tool_label(message.name)}" if message.type == "tool" else ""
    failed = " (error)" if getattr(message, "status", "") == "error" else ""
    yield f"── {_author(message)}{name}{failed}{note}"
    if text := text_of(message).strip(" \t\r\n"):
        # Indented, so that no text can pass for a heading or a call.
        yield from (f"  {line}" for line in text.split("\n"))
    yield from (picture.label for picture in pictures_of(message))
    for call in [*getattr(message, "tool_calls", ()), *getattr(message, "invalid_tool_calls", ())]:
        arguments = call["args"] if isinstance(call["args"], dict) else {"arguments": call["args"]}
        yield f"→ {whole_call(call['name'], arguments)}"
