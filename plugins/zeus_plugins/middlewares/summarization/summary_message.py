"""Writes and reads the message that replaces the old ones: summary, the user's words, path of the originals."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from zeus_plugins.middlewares.summarization.transcript import head

# The user's words follow the summary, and may have any of these tags in them.
_SUMMARY: Final = re.compile(
    r"<summary>\n(.*?)\n</summary>(?=\n<(?:user_message|last_request) |\Z)", re.DOTALL
)
_SAID: Final = re.compile(r"^<(?:user_message|last_request) message=\"([0-9]{1,18})\">$", re.MULTILINE)
# Greedy: it comes last, and the user's words may have the closing tag in them.
_REQUEST: Final = re.compile(r"<last_request message=\"([0-9]{1,18})\">\n(.*)\n</last_request>", re.DOTALL)
_FRAME_TOKENS: Final = 16
"""The tags around one of the user's messages."""


def compose(
    summary: str,
    *,
    handle: str,
    count: int,
    last: int,
    said: Sequence[tuple[int, str]],
    request: tuple[int, str] | None,
) -> str:
    """Return the message that replaces ``count`` messages.

    Args:
        summary: the summariser's text.
        handle: the path of the originals.
        count: the number of replaced messages.
        last: the place in the history of the last replaced message.
        said: place and text of the user's messages that are repeated, oldest first.
        request: place and text of the user's last request, if it is no longer in the view.
    """
    lines = [
        f"[{count} earlier messages, up to message {last}, are summarized here. Nothing is lost: the originals are in "
        f"{handle}; look there for exact wording, output or code that the summary leaves out. Continue the work; do "
        "not start again.]",
        f"<summary>\n{summary}\n</summary>",
    ]
    lines += (f'<user_message message="{seq}">\n{text}\n</user_message>' for seq, text in said)
    if request is not None:
        seq, text = request
        lines.append(f'<last_request message="{seq}">\n{text}\n</last_request>')
    return "\n".join(lines)


def summary_in(content: str) -> str:
    """Return the summary in a composed message; the whole text if ``compose`` did not write it."""
    found = _SUMMARY.search(content)
    return found[1] if found else content


def said_in(content: str) -> set[int]:
    """Return the places of all messages of the user that a composed message repeats; the caller reads their originals.

    The user's words may have such a tag in them, so a place can be any number.
    """
    return {int(found[1]) for found in _SAID.finditer(content)}


def newest_said(
    messages: Iterable[tuple[int, str]], count: Callable[[str], int], limit: int, note: str
) -> list[tuple[int, str]]:
    """Return the newest of the user's messages that fit, oldest first; a long one takes half of the limit at most.

    Args:
        messages: place and text, newest first.
        count: returns the tokens of a text.
        limit: tokens of all.
        note: marks where a message is cut.
    """
    return list(_fitting(messages, count, limit, note))[::-1]


def _fitting(
    messages: Iterable[tuple[int, str]], count: Callable[[str], int], limit: int, note: str
) -> Iterator[tuple[int, str]]:
    left = limit
    for seq, text in messages:
        words = bounded(text.strip(), count, limit // 2, note)
        left -= count(words) + _FRAME_TOKENS
        if left < 0:
            return
        yield seq, words


def request_in(content: str) -> tuple[int, str] | None:
    """Return place and text of the user's last request in a composed message; None if it has none."""
    found = _REQUEST.search(content)
    return (int(found[1]), found[2]) if found else None


def bounded(text: str, count: Callable[[str], int], limit: int, note: str) -> str:
    """Cut ``text`` to at most ``limit`` tokens; ``note`` marks the cut."""
    if count(text) <= limit:
        return text
    return f"{head(text, count, max(1, limit - count(note) - 2)).rstrip()}\n{note}"
