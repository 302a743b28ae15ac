"""Assembles one answer from its pieces, however a provider splits them.

Some providers send the pieces of a call without an index, or all calls with the index 0. Some repeat id and name in
each piece. Some send no ids, or ids that were used before. A new call begins at a name with a new id, or at a name
after complete arguments. A missing or used id is replaced by one derived from the conversation, so that the same answer
always gets the same ids.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from zeus_runtime.plugin.model import (
    ModelPiece,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    assistant_message,
    well_formed,
)

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage

_KEPT_FIELDS = ("thought_signature", "thought_signatures")
"""Data that a provider attaches to an answer or a call and needs back in later requests (Gemini)."""


class Assembly:
    """Collects the deltas; ``message`` returns the whole answer.

    Args:
        taken: ids of the conversation's earlier calls.
        seed: the prefix of ids made here; unique to the place in the conversation.
    """

    def __init__(self, *, taken: Collection[str], seed: str) -> None:
        self._taken = set(taken)
        self._seed = seed
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._thinking: list[tuple[dict[str, Any], list[str]]] = []
        self._fields: dict[str, Any] = {}
        self._calls: list[_Call] = []

    def add(self, delta: Mapping[str, Any]) -> list[ModelPiece]:
        """Add ``delta`` (a chat-completions delta, or a whole message) and return its contents as pieces."""
        pieces: list[ModelPiece] = []
        if delta.get("reasoning_content"):
            self._reasoning.append(delta["reasoning_content"])
            pieces.append(ReasoningDelta(delta["reasoning_content"]))
        for block in delta.get("thinking_blocks") or ():
            self._think(block)
        if delta.get("content"):
            self._text.append(delta["content"])
            pieces.append(TextDelta(delta["content"]))
        self._fields.update(_kept(delta))
        pieces.extend(self._part(part) for part in delta.get("tool_calls") or ())
        return pieces

    def _think(self, block: Mapping[str, Any]) -> None:
        open_block = self._thinking[-1][0] if self._thinking else None
        # A signature ends a block; text behind it is of the next one.
        if block.get("type") != "thinking" or open_block is None or _closed(open_block):
            self._thinking.append(({key: value for key, value in block.items() if value is not None}, []))
            return
        self._thinking[-1][1].append(block.get("thinking") or "")
        if block.get("signature"):
            open_block["signature"] = block["signature"]

    def _part(self, part: Mapping[str, Any]) -> ToolCallDelta:
        function = part.get("function") or {}
        name, arguments = function.get("name") or None, function.get("arguments") or ""
        call = self._call_of(part.get("index"), part.get("id") or None, name)
        first = call is None
        if call is None:
            position = len(self._calls)
            call = _Call(
                position, part.get("index"), part.get("id") or None, self._id(part.get("id"), position)
            )
            self._calls.append(call)
        if name and not call.name:
            call.name = name
        call.arguments.append(arguments)
        call.fields.update({**_kept(part), **_kept(function)})
        return ToolCallDelta(
            call.position, call.id if first else None, call.name if first else None, arguments
        )

    def _call_of(self, index: int | None, given: str | None, name: str | None) -> _Call | None:
        """Return the call that a part continues; None if the part begins a new call."""
        if given is not None:
            same = [call for call in self._calls if call.given == given and index in (None, call.index)]
            # A server that repeats the name in each piece is recognized once, because `complete` reads all arguments.
            if same and (not name or same[-1].repeats or not same[-1].complete):
                same[-1].repeats = True
                return same[-1]
        candidates = [call for call in self._calls if index is None or call.index == index]
        if not candidates:
            return None
        last = candidates[-1]
        begins = name is not None and (
            (given is not None and given != last.given)
            or (given is None and (index is None or last.complete))
        )
        return None if begins else last

    def _id(self, given: str | None, position: int) -> str:
        call_id = given or f"{self._seed}_{position}"
        # A conversation with two calls of one id is refused, and a result would fit both.
        if call_id in self._taken:
            call_id = f"{call_id}_{self._seed}_{position}"
        self._taken.add(call_id)
        return call_id

    def message(self, *, is_cut: bool = False) -> AIMessage:
        """Return the whole answer.

        Args:
            is_cut: whether it ended at the output limit, so its last call may be incomplete.
        """
        kept: dict[str, Any] = {}
        if self._reasoning:
            kept["reasoning_content"] = well_formed("".join(self._reasoning))
        if self._thinking:
            kept["thinking_blocks"] = [_joined(block, more) for block, more in self._thinking]
        if self._fields:
            kept["provider_specific_fields"] = self._fields
        attached = {call.id: call.fields for call in self._calls if call.fields}
        if attached:
            kept["tool_call_fields"] = attached
        calls = [(call.id, call.name, well_formed("".join(call.arguments))) for call in self._calls]
        text = well_formed("".join(self._text))
        return assistant_message(text, calls, is_cut=is_cut, additional_kwargs=kept)

    @property
    def has_calls(self) -> bool:
        return bool(self._calls)


class _Call:
    def __init__(self, position: int, index: int | None, given: str | None, call_id: str) -> None:
        self.position = position
        self.index = index
        self.given = given
        self.id = call_id
        self.name: str | None = None
        self.arguments: list[str] = []
        self.fields: dict[str, Any] = {}
        self.repeats = False

    @property
    def complete(self) -> bool:
        """Whether the arguments so far are a complete JSON value."""
        from json import loads

        try:
            loads("".join(self.arguments))
        except ValueError:
            return False
        return True


def _closed(block: Mapping[str, Any]) -> bool:
    return block.get("type") != "thinking" or bool(block.get("signature"))


def _joined(block: Mapping[str, Any], more: Sequence[str]) -> dict[str, Any]:
    return {**block, "thinking": "".join((block.get("thinking", ""), *more))} if more else dict(block)


def _kept(holder: Mapping[str, Any]) -> dict[str, Any]:
    fields = holder.get("provider_specific_fields") or {}
    return {key: fields[key] for key in _KEPT_FIELDS if fields.get(key)}


def seed_of(messages: Sequence[Any]) -> str:
    """Return the prefix of the ids made in the answer to ``messages``, unique to this place in the conversation."""
    from hashlib import blake2b

    last = messages[-1] if messages else None
    place = f"{len(messages)}:{getattr(last, 'id', None)}:{getattr(last, 'content', '')}"
    return f"call_{blake2b(place.encode('utf-8', 'surrogatepass'), digest_size=6).hexdigest()}"


def call_ids(messages: Sequence[Any]) -> set[str]:
    """Return the ids of all calls in ``messages``."""
    return {
        call["id"]
        for message in messages
        if message.type == "ai"
        for call in (*message.tool_calls, *message.invalid_tool_calls)
        if call["id"]
    }
