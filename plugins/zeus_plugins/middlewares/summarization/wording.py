"""What stands in the view instead of the messages that left: the summary, the last request, where the originals are."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from zeus_plugins.middlewares.summarization.transcript import head

_SUMMARY: Final = re.compile(r"<summary>\n(.*)\n</summary>", re.DOTALL)
_REQUEST: Final = re.compile(r"<last_request message=\"(\d+)\">\n(.*)\n</last_request>", re.DOTALL)


def compose(summary: str, *, handle: str, count: int, last: int, request: tuple[int, str] | None) -> str:
    """The message that takes the place of ``count`` messages.

    Args:
        summary: what the summariser wrote.
        handle: the path of the originals.
        count: how many messages it stands for.
        last: the place in the history of the last of them.
        request: place and text of the user's last request, when it is not in the view any more.
    """
    lines = [
        f"[{count} earlier messages, up to message {last}, are summarized here. Nothing is lost: the originals are in "
        f"{handle}; look there for exact wording, output or code that the summary leaves out. Go on with the work; do "
        "not start it anew.]",
        f"<summary>\n{summary}\n</summary>",
    ]
    if request is not None:
        seq, text = request
        lines.append(f'<last_request message="{seq}">\n{text}\n</last_request>')
    return "\n".join(lines)


def summary_in(content: str) -> str:
    """The summary within a composed message; the whole text when it is not composed here."""
    found = _SUMMARY.search(content)
    return found[1] if found else content


def request_in(content: str) -> tuple[int, str] | None:
    """The user's last request that a composed message carries on."""
    found = _REQUEST.search(content)
    return (int(found[1]), found[2]) if found else None


def bounded(text: str, count: Callable[[str], int], limit: int, note: str) -> str:
    """``text`` in at most ``limit`` tokens; what is cut off is said by ``note``."""
    if count(text) <= limit:
        return text
    return f"{head(text, count, max(1, limit - count(note) - 2)).rstrip()}\n{note}"
