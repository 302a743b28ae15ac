"""Matches of edit_file that are not exact: copied line numbers, and white space at the ends of lines. Pure.

Only whole lines match loosely, and each of them must be the same but for its indentation and trailing space. The new
text gets the file's indentation, by the pairs of indentations that the match shows; if they leave it open, nothing
matches.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

# Takes `  12\tx = 1`, as read_file shows a line, and not `12 x = 1`.
_NUMBERED: Final = re.compile(r" *[0-9]{1,18}\t")


class LooseMatch(NamedTuple):
    """A place at which a text matches.

    Args:
        start, end: in the text.
        new: what replaces it.
    """

    start: int
    end: int
    new: str


def without_line_numbers(old: str, new: str) -> tuple[str, str] | None:
    """Both texts without the line numbers that read_file shows; None if not every line of ``old`` has the next one."""
    lines = old.removesuffix("\n").split("\n")
    if not all(map(_NUMBERED.match, lines)):
        return None
    numbers = [int(line.partition("\t")[0]) for line in lines]
    if numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        return None
    if all(_NUMBERED.match(line) for line in new.removesuffix("\n").split("\n")):
        new = _unnumbered(new)
    return _unnumbered(old), new


def _unnumbered(text: str) -> str:
    return "\n".join(_NUMBERED.sub("", line, count=1) for line in text.split("\n"))


def loose_matches(text: str, old: str, new: str) -> Iterator[LooseMatch]:
    """The places where the lines of ``old`` are but for white space at their ends; they do not overlap.

    Args:
        text: with LF alone as line ends, like ``old`` and ``new``.
    """
    wanted = old.removesuffix("\n").split("\n")
    stripped = [line.strip() for line in wanted]
    if not any(stripped):
        return
    lines = text.split("\n")
    plain = [line.strip() for line in lines]
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    # The first line with text: an empty one would be a candidate at every empty line of the file.
    key = next(place for place, line in enumerate(stripped) if line)
    free = 0
    for place, line in enumerate(plain):
        first, last = place - key, place - key + len(wanted)
        if line != stripped[key] or first < free or last > len(lines) or plain[first:last] != stripped:
            continue
        end = starts[last] - 1
        # Such an `old` covers the line end too, and the file's last line has none.
        if old.endswith("\n"):
            if last == len(lines):
                continue
            end += 1
        fitted = _indented(new, _indents(wanted, lines[first:last]))
        if fitted is not None:
            yield LooseMatch(starts[first], end, fitted)
            free = last


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _indents(wanted: Sequence[str], found: Sequence[str]) -> dict[str, str] | None:
    """The file's indentation for each of the model's; None if one of these stands for two."""
    pairs: dict[str, str] = {}
    for ours, theirs in zip(wanted, found, strict=True):
        if ours.strip() and pairs.setdefault(_indent(ours), _indent(theirs)) != _indent(theirs):
            return None
    return pairs


def _indented(new: str, pairs: Mapping[str, str] | None) -> str | None:
    """``new`` with the file's indentation; None if the pairs do not say which that is."""
    if pairs is None:
        return None
    added, removed = _shift(pairs)
    lines = []
    for line in new.split("\n"):
        indent = _indent(line)
        if line.strip() and indent in pairs:
            line = pairs[indent] + line[len(indent) :]
        elif line.strip() and added is not None:
            line = added + line
        elif line.strip():
            if removed is None or not indent.startswith(removed):
                return None
            line = line[len(removed) :]
        lines.append(line)
    return "\n".join(lines)


def _shift(pairs: Mapping[str, str]) -> tuple[str | None, str | None]:
    """The prefix that the file adds to each indentation, and the one that it leaves out; None where there is none."""
    ours, theirs = next(iter(pairs.items()))
    added, removed = theirs.removesuffix(ours), ours.removesuffix(theirs)
    return (
        added if all(each == added + own for own, each in pairs.items()) else None,
        removed if all(own == removed + each for own, each in pairs.items()) else None,
    )
