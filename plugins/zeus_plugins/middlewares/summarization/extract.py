"""Makes a summary without a model, from the user's requests, the tool calls and the written files. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from zeus_plugins.middlewares.summarization.transcript import written_calls
from zeus_runtime.plugin.model import calls_of, is_users, text_of

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

_LINE = 160
_WRITING = ("write", "edit", "create", "save")
_PATHS = ("path", "file_path", "filename", "file")


def extract(messages: Sequence[tuple[int, BaseMessage]], count: Callable[[str], int], limit: int) -> str:
    """List the events in ``messages``, at most ``limit`` tokens; if too long, older lines are left out first.

    Args:
        messages: (place in the history, message) of each replaced message.
        count: returns the tokens of a text.
        limit: maximum tokens; at least a heading and a line are returned.
    """
    asked = [
        f"- (message {seq}) {_line(text_of(each, name_others=True))}"
        for seq, each in messages
        if is_users(each)
    ]
    written = list(dict.fromkeys(path for _, each in messages for path in _written(each)))
    done = [f"- (message {seq}) {line}" for seq, each in messages for line in _steps(each)]
    # About the tokens of the three headings.
    left = limit - 30
    # In this order: the next parts may use the room that one leaves.
    requests = _newest(asked, count, left // 3)
    left -= sum(count(line) + 1 for line in requests)
    artifacts = _newest([f"- {path}" for path in written], count, left // 3)
    left -= sum(count(line) + 1 for line in artifacts)
    blocks = [
        ("## What the user asked", requests),
        ("## Artifacts", artifacts),
        ("## What was done", _newest(done, count, left)),
    ]
    return "\n\n".join("\n".join([title, *lines]) for title, lines in blocks if lines)


def _steps(message: BaseMessage) -> Iterator[str]:
    if message.type == "tool" and getattr(message, "status", "") == "error":
        yield f"{message.name or 'a tool'} failed: {_line(text_of(message, name_others=True))}"
    if message.type == "ai":
        if text := text_of(message, name_others=True).strip():
            yield f"said: {_line(text)}"
        for name, arguments in written_calls(message):
            yield f"called {name} {_line(arguments)}"


def _written(message: BaseMessage) -> Iterator[str]:
    """Yield the paths that calls of ``message`` wrote to, found by the names of tool and argument."""
    for call in calls_of(message):
        given = call["args"]
        if isinstance(given, Mapping) and any(word in call["name"] for word in _WRITING):
            yield from (given[key] for key in _PATHS if isinstance(given.get(key), str) and given[key])


def _line(text: str) -> str:
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return first if len(first) <= _LINE else f"{first[:_LINE]}..."


def _newest(lines: list[str], count: Callable[[str], int], limit: int) -> list[str]:
    kept: list[str] = []
    left = limit
    for line in reversed(lines):
        left -= count(line) + 1
        if left < 0:
            kept.append("- (earlier ones are left out)")
            break
        kept.append(line)
    return kept[::-1]
