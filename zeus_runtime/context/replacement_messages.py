"""The messages that edits show in place of others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zeus_runtime.context.edits import Evict, TruncateArguments
from zeus_runtime.models.pictures import KEY as PICTURES

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage


def summary_message(content: str) -> BaseMessage:
    """The user message that shows a summary."""
    from langchain_core.messages import HumanMessage

    return HumanMessage(content)


def replaced(message: BaseMessage, edit: Evict | TruncateArguments) -> BaseMessage:
    """``message`` as ``edit`` shows it."""
    if isinstance(edit, Evict):
        kept = {name: value for name, value in message.additional_kwargs.items() if name != PICTURES}
        return message.model_copy(update={"content": edit.content, "additional_kwargs": kept})
    calls = [_with_arguments(call, edit) for call in message.tool_calls]  # type: ignore[attr-defined]
    # The report for the whole answer does not fit the shortened one: a count would take the cut for hidden reasoning.
    return message.model_copy(update={"tool_calls": calls, "usage_metadata": None})


def _with_arguments(call: dict[str, Any], edit: TruncateArguments) -> dict[str, Any]:
    if call["id"] != edit.call_id:
        return call
    known = {name: text for name, text in edit.arguments.items() if name in call["args"]}
    return {**call, "args": {**call["args"], **known}}
