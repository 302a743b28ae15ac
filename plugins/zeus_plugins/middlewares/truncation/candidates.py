"""Which arguments may be cut: long ones that can be had again, found once when their call arrives."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from zeus_runtime.plugin import dataclass

if TYPE_CHECKING:
    from zeus_runtime.plugin.context import Item

PATHS = ("path", "file_path", "filename", "file")
"""Arguments that name the file which another argument is the text of."""


@dataclass(frozen=True)
class Candidate:
    """A tool call with long arguments.

    Args:
        seq: the answer that holds it.
        call_id: which call.
        tool: the tool's name.
        arguments: the long ones.
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
    """The calls of ``items`` with replayable arguments longer than ``max_chars``."""
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
    """What is shown instead of the long arguments: their start, the mark, and for each where the rest is."""
    return {
        name: f"{value[:keep_chars]}{mark} [{len(value):,} characters; {where[name]}]"
        for name, value in candidate.arguments.items()
    }
