"""Writes messages as a transcript for the summariser, in parts that fit its window. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from zeus_runtime.plugin.model import calls_of, text_of

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

CountText = Callable[[str], int]


def entry(seq: int, message: BaseMessage) -> str:
    """Return a message as text: its role, its place in the history, its text and its calls."""
    if message.type == "tool":
        failed = ", failed" if getattr(message, "status", "") == "error" else ""
        head = f"[result of {message.name or 'a tool'}, message {seq}{failed}]"
    else:
        head = f"[{ {'human': 'user', 'ai': 'assistant'}.get(message.type, message.type) }, message {seq}]"
    lines = [head, text_of(message, name_others=True)]
    lines += [f"calls {name} {arguments}" for name, arguments in written_calls(message)]
    return "\n".join(line for line in lines if line)


def written_calls(message: BaseMessage) -> Iterator[tuple[str, str]]:
    """Yield the name and the arguments (as JSON) of each call, in order."""
    for call in calls_of(message):
        arguments = call["args"]
        yield (
            call["name"] or "",
            arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False),
        )


class JoinedEntries(NamedTuple):
    """Entries joined into one text.

    Args:
        text: the text for the summariser.
        done: the number of entries that are complete with this chunk and the previous ones.
    """

    text: str
    done: int


def chunks(entries: Sequence[str], count: CountText, limit: int) -> Iterator[JoinedEntries]:
    """Join the entries, in order, into texts of at most ``limit`` tokens; a longer entry is split into parts.

    Args:
        entries: results of ``entry``.
        count: returns the tokens of a text.
        limit: tokens, at least 1.
    """
    held: list[str] = []
    size = 0
    for number, each in enumerate(entries):
        for part in parts(each, count, limit):
            tokens = count(part) + 1
            if held and size + tokens > limit:
                # Without entry `number`, which may be in it in part only.
                yield JoinedEntries("\n\n".join(held), number)
                held, size = [], 0
            held.append(part)
            size += tokens
    if held:
        yield JoinedEntries("\n\n".join(held), len(entries))


def parts(text: str, count: CountText, limit: int) -> Iterator[str]:
    """Split ``text`` into parts of at most ``limit`` tokens, at nearby line ends if there are any."""
    while text:
        piece = head(text, count, limit)
        yield piece
        # `head` gives at least one character, so the text gets shorter each time.
        text = text[len(piece) :]


def head(text: str, count: CountText, limit: int) -> str:
    """Return the beginning of ``text``: at most ``limit`` tokens, at least one character, to a nearby line end."""
    tokens = count(text)
    if tokens <= limit:
        return text
    # By the mean first, so that a few counts are enough, however long the text is.
    size = max(1, len(text) * limit // tokens)
    while size > 1 and count(text[:size]) > limit:
        size = size * 9 // 10
    line = text.rfind("\n", size // 2, size)
    return text[: line + 1] if line > 0 else text[:size]


def tail(entries: Sequence[str], count: CountText, limit: int) -> list[str]:
    """Return the last entries that have at most ``limit`` tokens together; at least the end of the last one."""
    kept: list[str] = []
    left = limit
    for each in reversed(entries):
        left -= count(each) + 1
        if left < 0:
            break
        kept.append(each)
    if not kept and entries:
        kept.append(end(entries[-1], count, limit))
    return kept[::-1]


def end(text: str, count: CountText, limit: int) -> str:
    """Return the end of ``text``: at most ``limit`` tokens, at least one character."""
    tokens = count(text)
    if tokens <= limit:
        return text
    size = max(1, len(text) * limit // tokens)
    while size > 1 and count(text[-size:]) > limit:
        size = size * 9 // 10
    return text[-size:]
