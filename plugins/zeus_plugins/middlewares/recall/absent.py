"""Finds the messages that left the window (history minus view), as texts with their places."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from zeus_runtime.plugin import dataclass
from zeus_runtime.plugin.model import calls_of, is_users, text_of

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from zeus_runtime.plugin.context import View

OWN_TOOL = "recall"


@dataclass(frozen=True)
class Absent:
    """A message that is no longer shown, or not completely.

    Args:
        seq: its place in the history.
        source: ``user``, ``assistant`` or ``tool NAME``.
        how: ``left`` the window, or is ``shown shortened``.
        text: the whole text, including tool calls with their arguments.
    """

    seq: int
    source: str
    how: str
    text: str


def absent(view: View) -> Iterator[Absent]:
    """Yield every message that the model does not see completely, oldest first, without this tool's results."""
    own: set[str] = set()
    for seq in range(1, view.upto + 1):
        message = view.original(seq)
        # Its own results repeat other messages: they would be found beside, or instead of, the originals.
        own.update(str(call["id"]) for call in calls_of(message) if call["name"] == OWN_TOOL)
        if message.type == "tool" and message.tool_call_id in own:  # type: ignore[attr-defined]
            continue
        found = at(view, seq)
        if found is not None and found.text:
            yield found


def at(view: View, seq: int) -> Absent | None:
    """Return the message at ``seq``; None if the model sees it completely."""
    message = view.original(seq)
    if not view.shown(seq):
        return Absent(seq, source_of(message), "left the window", whole_text(message))
    if _shortened(view, seq):
        return Absent(seq, source_of(message), "shown shortened", whole_text(message))
    return None


def seq_of(view: View, path: str) -> int | None:
    """Return the place of the message whose placeholder in the view names ``path``; None if no message matches."""
    # Not within a longer path: "/results/a" is not named by "/results/ab", "/results/a.2" or "/results/a-b".
    named = re.compile(rf"{re.escape(path)}(?!\.?[\w-])")
    for seq in range(view.upto, 0, -1):
        if _shortened(view, seq) and named.search(whole_text(view.item_of(seq).message)):
            return seq
    return None


def _shortened(view: View, seq: int) -> bool:
    calls = calls_of(view.original(seq))
    return view.evicted(seq) or any(view.truncated(str(call["id"])) for call in calls)


def whole_text(message: BaseMessage) -> str:
    """Return a message as text: its content, then one paragraph for each tool call."""
    calls = [
        f"[call of {call['name']}]\n{_arguments(call['args'])}"
        for call in calls_of(message)
        if call["name"] != OWN_TOOL
    ]
    return "\n\n".join(part for part in (text_of(message, name_others=True), *calls) if part)


def _arguments(arguments: Any) -> str:
    if not isinstance(arguments, Mapping):
        return str(arguments)
    return "\n".join(
        f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for name, value in arguments.items()
    )


def source_of(message: BaseMessage) -> str:
    """Who said it."""
    if message.type == "tool":
        return f"tool {message.name or ''}".rstrip()
    if message.type == "human" and not is_users(message):
        return "runtime"
    return {"human": "user", "ai": "assistant"}.get(message.type, message.type)
