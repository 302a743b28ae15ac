"""The lines in which two texts differ, with some of those around them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

CONTEXT: Final = 3
_MOST_COMPARED: Final = 1_000_000
"""Pairs of lines that are compared; beyond it, all old lines are shown as removed and all new ones as added."""

Kind: TypeAlias = Literal[" ", "-", "+", "@"]
Opcode: TypeAlias = tuple[str, int, int, int, int]


@dataclass(frozen=True)
class DiffLine:
    """A line of a diff.

    Args:
        kind: kept, removed, added, or ``@`` before lines that do not follow the last ones.
        text: the line with its newline, if it has one; for ``@`` the number of the next line.
    """

    kind: Kind
    text: str


def difference(before: str, after: str) -> list[DiffLine]:
    """What makes ``after`` of ``before``; nothing where they are the same."""
    return list(_shown(_lines(before), _lines(after)))


def _lines(text: str) -> list[str]:
    """Lines with their newlines; only newlines end a line."""
    *whole, rest = text.split("\n")
    return [f"{line}\n" for line in whole] + ([rest] if rest else [])


def _shown(old: Sequence[str], new: Sequence[str]) -> Iterator[DiffLine]:
    opcodes = _opcodes(old, new)
    if all(tag == "equal" for tag, *_ in opcodes):
        return
    for place, (tag, start, end, new_start, new_end) in enumerate(opcodes):
        if tag != "equal":
            yield from (DiffLine("-", line) for line in old[start:end])
            yield from (DiffLine("+", line) for line in new[new_start:new_end])
            continue
        head = min(end, start + CONTEXT) if place else start
        tail = max(head, end - CONTEXT) if place < len(opcodes) - 1 else end
        yield from (DiffLine(" ", line) for line in old[start:head])
        if place < len(opcodes) - 1:
            if tail > head:
                yield DiffLine("@", f"{new_start + tail - start + 1}")
            yield from (DiffLine(" ", line) for line in old[tail:end])


def _opcodes(old: Sequence[str], new: Sequence[str]) -> list[Opcode]:
    """The opcodes of ``difflib``; a common beginning and end are left out of the comparison."""
    from difflib import SequenceMatcher

    most = min(len(old), len(new))
    head = next((place for place in range(most) if old[place] != new[place]), most)
    tail = next((place for place in range(most - head) if old[-1 - place] != new[-1 - place]), most - head)
    old_end, new_end = len(old) - tail, len(new) - tail
    if (old_end - head) * (new_end - head) > _MOST_COMPARED:
        middle: list[Opcode] = [("replace", 0, old_end - head, 0, new_end - head)]
    else:
        matcher = SequenceMatcher(None, old[head:old_end], new[head:new_end], autojunk=False)
        middle = list(matcher.get_opcodes())
    found = [("equal", 0, head, 0, head)] if head else []
    found += [(tag, a + head, b + head, c + head, d + head) for tag, a, b, c, d in middle]
    return [*found, ("equal", old_end, len(old), new_end, len(new))] if tail else found
