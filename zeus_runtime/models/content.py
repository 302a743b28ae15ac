"""What a message says: its text and its calls."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime.models.pictures import KEY as PICTURES
from zeus_runtime.models.pictures import pictures_of

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage


FROM_RUNTIME: Final = "from_runtime"
"""Key of the ``additional_kwargs`` of a message that has the user's role, but that the runtime wrote."""


def is_users(message: BaseMessage) -> bool:
    """Whether the user wrote a message."""
    return message.type == "human" and FROM_RUNTIME not in message.additional_kwargs


def is_users_payload(payload: Mapping[str, Any]) -> bool:
    """The same of a stored message."""
    return payload.get("role") == "user" and FROM_RUNTIME not in payload.get("additional_kwargs", ())


def text_of(message: BaseMessage, *, name_others: bool = False) -> str:
    """A message's text.

    Args:
        name_others: pictures and content that is not text are named, each on a line; else they are left out.
    """
    content = message.content
    if name_others and message.additional_kwargs.get(PICTURES):
        return "\n".join([text for text in (text_of(message),) if text] + _labels(message))
    if isinstance(content, str):
        return content
    if not name_others:
        return "".join(block if isinstance(block, str) else str(block.get("text", "")) for block in content)
    return "\n".join(
        block if isinstance(block, str) else str(block.get("text") or f"[{block.get('type', 'content')}]")
        for block in content
    )


def calls_of(message: BaseMessage) -> Sequence[Mapping[str, Any]]:
    """The tool calls of an answer, valid ones first; an invalid one has an ``error`` and text arguments."""
    if message.type != "ai":
        return ()
    return [*message.tool_calls, *message.invalid_tool_calls]  # type: ignore[attr-defined]


def whole_text(message: BaseMessage) -> str:
    """All that a model reads of a message: content, labels of pictures, names and arguments of calls."""
    content = message.content
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    calls = [f"{call['name']} {_argument_text(call['args'])}" for call in calls_of(message)]
    others = [*_labels(message), *calls]
    return "\n".join([text, *others]) if others else text


def _labels(message: BaseMessage) -> list[str]:
    return [picture.label for picture in pictures_of(message)]


def _argument_text(arguments: Any) -> str:
    """The arguments of a call with their texts and line breaks unescaped; other values unchanged."""
    if not isinstance(arguments, Mapping):
        return str(arguments or "")
    shown = (
        value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for value in arguments.values()
    )
    return " ".join(f"{name}: {value}" for name, value in zip(arguments, shown, strict=True))
