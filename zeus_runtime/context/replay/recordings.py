"""Recorded conversations for replay: a stored session, or a file of trajectories."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime.errors import UsageError
from zeus_runtime.models.content import calls_of, text_of, whole_text
from zeus_runtime.models.messages import from_chat
from zeus_runtime.models.pictures import kept_with, pictures_of

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from zeus_runtime.models.interface import ToolSchema

SECONDS_BETWEEN_MESSAGES: Final = 10.0
"""Assumed time between the messages of a trajectory, which has no times."""

_SHORTEST_NEEDLE: Final = 6
_LONGEST_NEEDLE: Final = 80


@dataclass(frozen=True)
class Recording:
    """A conversation without system messages, in which every call has its results directly after it.

    Args:
        name: a session id, or a trajectory's source and id.
        messages: LangChain messages; the first is the user's.
        at_seconds: when each was written, counted from the first.
        tools: the tools of the last request; empty where they are not known.
    """

    name: str
    messages: tuple[BaseMessage, ...]
    at_seconds: tuple[float, ...]
    tools: tuple[ToolSchema, ...] = ()

    def following(self, place: int) -> int:
        """The place after the answer at ``place`` and its results."""
        place += 1
        while place < len(self.messages) and self.messages[place].type == "tool":
            place += 1
        return place

    @cached_property
    def needles(self) -> Mapping[int, tuple[str, ...]]:
        """The needles of each answer, by its place: argument values in its calls that earlier messages contain.

        The recorded model took such a value, of 6 to 80 characters, from an earlier message. Without it in the context
        the call would have been impossible.
        """
        texts: list[str] = []
        absent_until: dict[str, int] = {}
        found: dict[int, tuple[str, ...]] = {}
        for place, message in enumerate(self.messages):
            values = dict.fromkeys(value for call in calls_of(message) for value in _strings(call["args"]))
            needed = []
            for value in values:
                # Texts before `absent_until` were searched for this value already, so each is searched once.
                if any(value in text for text in reversed(texts[absent_until.get(value, 0) :])):
                    needed.append(value)
                else:
                    absent_until[value] = len(texts)
            if needed:
                found[place] = tuple(needed)
            texts.append(whole_text(message))
        return found


def recording(name: str, messages: Iterable[BaseMessage], at_seconds: Iterable[float] = ()) -> Recording:
    """A recording from messages, made regular.

    System messages are left out, since a candidate config has its own prompt. Consecutive user messages become one, and
    a repeated call id gets a number. Calls without results, results without calls, and final user messages without an
    answer are left out.

    Args:
        name: the name in reports.
        messages: in order.
        at_seconds: when each was written; ten seconds apart by default.
    """
    given = list(messages)
    times = [*at_seconds] or [place * SECONDS_BETWEEN_MESSAGES for place in range(len(given))]
    kept: list[tuple[BaseMessage, float]] = []
    seen: set[str] = set()
    for group in _groups(given):
        first = given[group[0]]
        if first.type == "human":
            if kept and kept[-1][0].type == "human":
                kept[-1] = (_joined(kept[-1][0], first), times[group[0]])
            else:
                kept.append((first, times[group[0]]))
        elif kept:
            renamed = _unique([given[place] for place in group], seen)
            kept.extend((message, times[place]) for message, place in zip(renamed, group, strict=True))
    while kept and kept[-1][0].type == "human":
        kept.pop()
    start = kept[0][1] if kept else 0.0
    return Recording(name, tuple(each for each, _ in kept), tuple(at - start for _, at in kept))


def _joined(earlier: BaseMessage, later: BaseMessage) -> BaseMessage:
    pictures = kept_with([*pictures_of(earlier), *pictures_of(later)])
    said = [text_of(each) if pictures_of(each) else whole_text(each) for each in (earlier, later)]
    more = {**later.additional_kwargs, **pictures}
    return later.model_copy(update={"content": "\n\n".join(said), "additional_kwargs": more})


def read_trajectories(text: str, source: str = "") -> tuple[Recording, ...]:
    """The recordings of a JSONL text, in which each line is one conversation of OpenAI-style ``messages``.

    Args:
        text: the file's text.
        source: the file's name, for errors.

    Raises:
        UsageError: a line is not such a conversation; the error names the line.
    """
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            messages = [from_chat(message) for message in row["messages"]]
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            raise UsageError(
                f"line {number} is not a trajectory: {problem}",
                where=f"{source}:{number}" if source else None,
                remedy='One line is one JSON object with "messages" in the chat-completions form.',
            ) from None
        name = " ".join(str(row[key]) for key in ("source", "id") if row.get(key) is not None)
        found.append(recording(name or f"line {number}", messages))
    return tuple(found)


def chained(name: str, recordings: Sequence[Recording], length: int) -> Recording:
    """One long conversation: the recordings one after the other, repeated, up to ``length`` messages.

    A recording that ends with tool results gets a closing answer, so that the next user message follows the model.

    Args:
        name: the name in reports.
        recordings: at least one that is not empty.
        length: how many messages; the result may have a few fewer, so that it ends with an answer.
    """
    stream = (message for each in cycle(recordings) for message in _closed(each.messages))
    found = recording(name, islice(stream, length))
    whole = len(found.messages)
    while whole and (found.messages[whole - 1].type != "ai" or calls_of(found.messages[whole - 1])):
        whole -= 1
    return Recording(name, found.messages[:whole], found.at_seconds[:whole])


def _closed(messages: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
    from langchain_core.messages import AIMessage

    return [*messages, AIMessage("Done.")] if messages and messages[-1].type == "tool" else messages


def _groups(messages: Sequence[BaseMessage]) -> Iterator[list[int]]:
    """Places that stay together: a user's message, or an answer with all its results."""
    place = 0
    while place < len(messages):
        message = messages[place]
        place += 1
        if message.type == "human":
            yield [place - 1]
        elif message.type == "ai":
            group = [place - 1]
            wanted = [str(call["id"]) for call in calls_of(message)]
            while place < len(messages) and messages[place].type == "tool":
                if (call_id := str(getattr(messages[place], "tool_call_id", ""))) in wanted:
                    wanted.remove(call_id)
                    group.append(place)
                place += 1
            # An answer whose calls have not all a result is left out with those that it has: providers refuse it.
            if not wanted:
                yield group


def _unique(group: Sequence[BaseMessage], seen: set[str]) -> list[BaseMessage]:
    answer, *results = group
    names: dict[str, str] = {}
    for call in calls_of(answer):
        new = old = str(call["id"])
        number = 1
        while new in seen:
            number += 1
            new = f"{old}_{number}"
        seen.add(new)
        names[old] = new
    if all(old == new for old, new in names.items()):
        return list(group)
    changes = {
        key: [{**call, "id": names[str(call["id"])]} for call in getattr(answer, key)]
        for key in ("tool_calls", "invalid_tool_calls")
    }
    return [
        answer.model_copy(update=changes),
        *(each.model_copy(update={"tool_call_id": names[str(each.tool_call_id)]}) for each in results),  # type: ignore[attr-defined]
    ]


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if _SHORTEST_NEEDLE <= len(value) <= _LONGEST_NEEDLE:
            yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _strings(each)
    elif isinstance(value, list):
        for each in value:
            yield from _strings(each)
