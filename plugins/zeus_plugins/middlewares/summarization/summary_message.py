"""Writes and reads the message that replaces the old ones: summary, last request, path of the originals."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from zeus_plugins.middlewares.summarization.transcript import head

_SUMMARY: Final = re.compile(r"<summary>\n(.*)\n</summary>", re.DOTALL)
_REQUEST: Final = re.compile(r"<last_request message=\"(\d+)\">\n(.*)\n</last_request>", re.DOTALL)


def compose(summary: str, *, handle: str, count: int, last: int, request: tuple[int, str] | None) -> str:
    """Return the message that replaces ``count`` messages.

    Args:
        summary: the summariser's text.
        handle: the path of the originals.
        count: the number of replaced messages.
        last: the place in the history of the last replaced message.
        request: place and text of the user's last request, if it is no longer in the view.
    """
    lines = [
        f"[{count} earlier messages, up to message {last}, are summarized here. Nothing is lost: the originals are in "
        f"{handle}; look there for exact wording, output or code that the summary leaves out. Continue the work; do "
        "not start again.]",
        f"<summary>\n{summary}\n</summary>",
    ]
    if request is not None:
        seq, text = request
        lines.append(f'<last_request message="{seq}">\n{text}\n</last_request>')
    return "\n".join(lines)


def summary_in(content: str) -> str:
    """Return the summary in a composed message; the whole text if ``compose`` did not write it."""
    found = _SUMMARY.search(content)
    return found[1] if found else content


def request_in(content: str) -> tuple[int, str] | None:
    """Return place and text of the user's last request in a composed message; None if it has none."""
    found = _REQUEST.search(content)
    return (int(found[1]), found[2]) if found else None


def bounded(text: str, count: Callable[[str], int], limit: int, note: str) -> str:
    """Cut ``text`` to at most ``limit`` tokens; ``note`` marks the cut."""
    if count(text) <= limit:
        return text
    return f"{head(text, count, max(1, limit - count(note) - 2)).rstrip()}\n{note}"
