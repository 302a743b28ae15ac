"""One message of the view, with its size, class and source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from zeus_runtime.models.content import FROM_RUNTIME

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

Survival: TypeAlias = Literal["pinned", "replayable", "normal"]

SUMMARY_SEQ: Final = 0
"""The ``seq`` of the summary, which is not a message of the history."""


@dataclass(frozen=True)
class Item:
    """One message of the view.

    Args:
        seq: its place in the history, from 1; 0 for the summary.
        message: as it is shown.
        tokens: the tokens of ``message``.
        survival: ``pinned`` stays for ever, ``replayable`` can be fetched again, ``normal`` neither.
        source: ``user``, ``assistant``, ``tool:NAME``, ``system`` or ``summary``.
    """

    seq: int
    message: BaseMessage
    tokens: int = 0
    survival: Survival = "normal"
    source: str = ""


def source_of(message: BaseMessage) -> str:
    """``user``, ``assistant``, ``system``, ``runtime`` or ``tool:NAME``."""
    if message.type == "tool":
        return f"tool:{message.name or ''}"
    if FROM_RUNTIME in message.additional_kwargs:
        return "runtime"
    return _SOURCES.get(message.type, message.type)


_SOURCES: Final = {"human": "user", "ai": "assistant"}
