"""Finds arguments that may be cut: long, replayable ones, checked once when their call arrives."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from zeus_runtime.plugin import dataclass

if TYPE_CHECKING:
    from zeus_runtime.plugin.context import Item

PATHS = ("path", "file_path", "filename", "file")
"""Names of arguments with the path of a file, whose text is in another argument."""


@dataclass(frozen=True)
class Candidate:
    """A tool call with long arguments.

    Args:
        seq: the answer that contains the call.
        call_id: the call's id.
        tool: the tool's name.
        arguments: the names of the long arguments.
        path: the file that the call names, if it names one.
    """

    seq: int
    call_id: str
    tool: str
    arguments: Mapping[str, str]
    path: str = ""


def candidates(
    items: Sequence[Item], replayable: Callable[[str], Collection[str]], max_chars: int
) -> Iterator[Candidate]:
    """Return the calls in ``items`` that have replayable arguments longer than ``max_chars``."""
    for item in items:
        if item.message.type != "ai":
            continue
        for call in item.message.tool_calls:  # type: ignore[attr-defined]
            names = replayable(call["name"])
            long = {
                name: value
                for name, value in call["args"].items()
                if name in names and isinstance(value, str) and len(value) > max_chars
            }
            if long:
                path = next((str(call["args"][name]) for name in PATHS if name in call["args"]), "")
                yield Candidate(item.seq, str(call["id"]), call["name"], long, path)


def shortened(
    candidate: Candidate, keep_chars: int, mark: str, where: Mapping[str, str]
) -> Mapping[str, str]:
    """Return the shortened arguments: the beginning, the mark, the length, and where the rest is."""
    return {
        name: f"{value[:keep_chars]}{mark} [{len(value):,} characters; {where[name]}]"
        for name, value in candidate.arguments.items()
    }
