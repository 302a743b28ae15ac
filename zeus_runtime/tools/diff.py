"""The lines in which two texts differ, with some of those around them. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from zeus_runtime.frozen import dataclass

CONTEXT: Final = 3
_MOST_STEPS: Final = 200_000_000
"""Of ``difflib`` in all pieces of two texts, for about two seconds; for n and m lines it needs up to n·m·min(n, m)."""

Kind: TypeAlias = Literal[" ", "-", "+", "@"]
Pair: TypeAlias = tuple[int, int]
"""The places of a line that stays, in the old text and in the new one."""


@dataclass(frozen=True)
class DiffLine:
    """A line of a diff.

    Args:
        kind: kept, removed, added, or ``@`` before lines that do not follow the last ones.
        text: the line with its newline, if it has one; for ``@`` the number of the next line.
    """

    kind: Kind
    text: str


@dataclass(frozen=True)
class Diff:
    """What makes one text of another.

    Args:
        lines: nothing where they are the same.
        is_compared: false if lines that stay may be shown as removed and added, because to find them costs too much.
    """

    lines: Sequence[DiffLine]
    is_compared: bool = True


@dataclass(frozen=True)
class DiffGap:
    """Lines that a cut diff leaves out; ``is_removed``: all of them were removed."""

    lines: int
    characters: int
    is_removed: bool = False


class _Run(NamedTuple):
    """Lines that all stay, or that all change."""

    stays: bool
    start: int
    end: int
    new_start: int
    new_end: int


def difference(before: str, after: str) -> Diff:
    """What makes ``after`` of ``before``."""
    old, new = _lines(before), _lines(after)
    pairs, is_compared = _compared(old, new)
    return Diff(list(_shown(old, new, list(_runs(pairs, len(old), len(new))))), is_compared)


def _lines(text: str) -> list[str]:
    """Lines with their newlines; only newlines end a line."""
    *whole, rest = text.split("\n")
    return [f"{line}\n" for line in whole] + ([rest] if rest else [])


def _shown(old: Sequence[str], new: Sequence[str], runs: Sequence[_Run]) -> Iterator[DiffLine]:
    if all(run.stays for run in runs):
        return
    for place, (stays, start, end, new_start, new_end) in enumerate(runs):
        if not stays:
            yield from (DiffLine("-", line) for line in old[start:end])
            yield from (DiffLine("+", line) for line in new[new_start:new_end])
            continue
        head = min(end, start + CONTEXT) if place else start
        tail = max(head, end - CONTEXT) if place < len(runs) - 1 else end
        yield from (DiffLine(" ", line) for line in old[start:head])
        if place < len(runs) - 1:
            if tail > head:
                yield DiffLine("@", f"{new_start + tail - start + 1}")
            yield from (DiffLine(" ", line) for line in old[tail:end])


def _runs(pairs: Sequence[Pair], old_end: int, new_end: int) -> Iterator[_Run]:
    start = new_start = at = new_at = 0
    for place, new_place in (*pairs, (old_end, new_end)):
        if (place, new_place) != (at, new_at):
            if at > start:
                yield _Run(True, start, at, new_start, new_at)
            yield _Run(False, at, place, new_at, new_place)
            start, new_start = place, new_place
        at, new_at = place + 1, new_place + 1
    if old_end > start:
        yield _Run(True, start, old_end, new_start, new_end)


def _compared(old: Sequence[str], new: Sequence[str]) -> tuple[list[Pair], bool]:
    """The lines that stay, and whether all that could stay was compared.

    A piece that ``difflib`` could compare for too long is split at lines that are unique ("patience diff").
    """
    from difflib import SequenceMatcher

    found: list[Pair] = []
    is_compared, steps = True, _MOST_STEPS
    pieces = [(0, len(old), 0, len(new))]
    while pieces:
        start, end, new_start, new_end = piece = _trimmed(old, new, pieces.pop(), found)
        ours, theirs = old[start:end], new[new_start:new_end]
        if set(ours).isdisjoint(theirs):
            continue
        needed = len(ours) * len(theirs) * min(len(ours), len(theirs))
        if needed <= steps:
            steps -= needed
            blocks = SequenceMatcher(None, ours, theirs, autojunk=False).get_matching_blocks()
            pairs = [(first + each, second + each) for first, second, size in blocks for each in range(size)]
        elif pairs := _anchors(ours, theirs):
            pieces += _between(pairs, piece)
        else:
            is_compared = False
        found += [(start + place, new_start + new_place) for place, new_place in pairs]
    return sorted(found), is_compared


_Piece: TypeAlias = tuple[int, int, int, int]
"""Where a part of the old text starts and ends, and then that of the new one."""


def _trimmed(old: Sequence[str], new: Sequence[str], piece: _Piece, found: list[Pair]) -> _Piece:
    """The piece without the lines that it begins and ends with in both texts, which join ``found``."""
    start, end, new_start, new_end = piece
    most = min(end - start, new_end - new_start)
    head = next((n for n in range(most) if old[start + n] != new[new_start + n]), most)
    most -= head
    tail = next((n for n in range(most) if old[end - 1 - n] != new[new_end - 1 - n]), most)
    found += [(start + n, new_start + n) for n in range(head)]
    found += [(end - 1 - n, new_end - 1 - n) for n in range(tail)]
    return start + head, end - tail, new_start + head, new_end - tail


def _between(anchors: Sequence[Pair], piece: _Piece) -> Iterator[_Piece]:
    start, end, new_start, new_end = piece
    at, new_at = start, new_start
    for place, new_place in (*anchors, (end - start, new_end - new_start)):
        if start + place > at and new_start + new_place > new_at:
            yield at, start + place, new_at, new_start + new_place
        at, new_at = start + place + 1, new_start + new_place + 1


def _anchors(old: Sequence[str], new: Sequence[str]) -> list[Pair]:
    """Lines that are once in both texts, in the order of both; without such lines, those that are equally frequent."""
    counts, new_counts = Counter(old), Counter(new)
    same = {line for line, count in counts.items() if new_counts[line] == count}
    once = {line for line in same if counts[line] == 1}
    return _in_order(old, new, once) or _in_order(old, new, same)


def _in_order(old: Sequence[str], new: Sequence[str], lines: Collection[str]) -> list[Pair]:
    """The most of these lines that have one order in both texts: the longest rising sequence of their places."""
    places: dict[str, list[int]] = {line: [] for line in lines}
    for place in range(len(new) - 1, -1, -1):
        if new[place] in places:
            places[new[place]].append(place)
    pairs = [(place, places[line].pop()) for place, line in enumerate(old) if line in places]
    # Of the sequences of each length: the smallest last place, its pair, and for each pair the one before it.
    lasts: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for index, (_, new_place) in enumerate(pairs):
        length = bisect_left(lasts, new_place)
        before.append(ends[length - 1] if length else -1)
        lasts[length : length + 1], ends[length : length + 1] = [new_place], [index]
    rising = []
    index = ends[-1] if ends else -1
    while index >= 0:
        rising.append(pairs[index])
        index = before[index]
    return rising[::-1]


def cut_diff(found: Sequence[DiffLine], lines: int, characters: int) -> list[DiffLine | DiffGap]:
    """A diff of at most so many lines and characters, with a gap where some are left out.

    A change that does not fit shares the room: its removed lines alone would look like a deletion.
    """
    begin = _fitting(found, lines, characters)
    start, middle, end = _change_around(found, begin)
    removed, added = found[start:middle], found[middle:end]
    if not removed or not added:
        return [*found[:begin], *_gap(found[begin:])]
    lines, characters = lines - start, characters - _size(found[:start])
    kept = _fitting(
        removed, lines - min(len(added), lines // 2), characters - min(_size(added), characters // 2)
    )
    kept_added = _fitting(added, lines - kept, characters - _size(removed[:kept]))
    if not kept or not kept_added:
        return [*found[:start], *_gap(found[start:])]
    left = _gap(removed[kept:], is_removed=True)
    return [*found[: start + kept], *left, *added[:kept_added], *_gap(found[middle + kept_added :])]


def _gap(lines: Sequence[DiffLine], *, is_removed: bool = False) -> list[DiffGap]:
    return [DiffGap(len(lines), _size(lines), is_removed)] if lines else []


def _change_around(found: Sequence[DiffLine], place: int) -> tuple[int, int, int]:
    """Where the removed lines of the change at ``place`` start, where its added ones do, and where it ends."""
    start = end = place
    while start > 0 and place < len(found) and found[place].kind in "-+" and found[start - 1].kind in "-+":
        start -= 1
    while end < len(found) and found[end].kind in "-+":
        end += 1
    return start, start + sum(each.kind == "-" for each in found[start:end]), end


def _fitting(lines: Sequence[DiffLine], most: int, characters: int) -> int:
    """How many of the first lines fit."""
    for place, each in enumerate(lines[:most]):
        characters -= len(each.text)
        if characters < 0:
            return place
    return min(most, len(lines))


def _size(lines: Sequence[DiffLine]) -> int:
    return sum(len(each.text) for each in lines)
