"""A text as the blocks that belong together: headings, paragraphs, fenced code, tables. Pure; one look at each line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from zeus_runtime.knowledge.convert import Form

Kind: TypeAlias = Literal["heading", "text", "code", "table"]

Block: TypeAlias = tuple[Kind, int, int]
"""Lines that belong together: what they are, the first one's place, from 0, and the place behind the last.

A heading is one that is underlined. No class, since making one takes as long as finding a block.
"""

# "## Title" and "```py" are marked; "#tag", "####### a" and a line behind four spaces are not.
_MARKED: Final = re.compile(r" {0,3}(?:(?P<heading>#{1,6})[ \t]+|(?P<fence>`{3,}|~{3,}))")
_MARKS: Final = frozenset(" #`~=-")
"""What a heading, a fence or the line under a heading begins with."""
# "===" and "-- " underline a heading; "- item" and "=-=" do not.
_UNDERLINE: Final = re.compile(r" {0,3}(=+|-+)[ \t]*\Z")


class Stretch(NamedTuple):
    """The lines between two headings that are marked by ``#``.

    Args:
        level, title: of the heading before it; 0 and empty at the beginning of a text.
        start, end: its lines, without blank ones at either end; equal if there are none.
        is_even: its blocks are separated by exactly one empty line, so joining them restores its lines.
        fences: start and end of each fenced code block in it.
    """

    level: int
    title: str
    start: int
    end: int
    is_even: bool = False
    fences: Sequence[tuple[int, int]] = ()


class TextLines:
    """A text's lines.

    Args:
        text: its line ends are ``\\n``.
    """

    def __init__(self, text: str) -> None:
        self.written: Final = text.split("\n")
        seen = self.written
        self._all_bare = not any(map(str.isspace, seen))
        if not self._all_bare:
            seen = ["" if line.isspace() else line for line in seen]
        self.seen: Final = [*seen, ""]
        """With nothing in blank ones, and one more of them."""

    def text(self, start: int, end: int) -> str:
        """Some of them as they are written."""
        return self.written[start] if end - start == 1 else "\n".join(self.written[start:end])

    def are_bare(self, start: int, end: int) -> bool:
        """Whether all blank lines in the range are empty, without spaces."""
        return self._all_bare or self.written[start:end] == self.seen[start:end]

    def trimmed(self, start: int, end: int) -> tuple[int, int]:
        """Without blank ones at either end."""
        while start < end and not self.seen[start]:
            start += 1
        while start < end and not self.seen[end - 1]:
            end -= 1
        return start, end

    def parted(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """The runs of lines without a blank one."""
        seen = self.seen
        while start < end:
            if seen[start]:
                # `seen` ends with a blank line, so there always is one.
                blank = min(seen.index("", start), end)
                yield start, blank
                start = blank
            start += 1


def stretches(lines: TextLines, form: Form) -> Iterator[Stretch]:
    """The stretches of a text in order; of what is not Markdown it is one."""
    if form == "markdown":
        yield from _stretches(lines)
    else:
        yield Stretch(0, "", *lines.trimmed(0, len(lines.written)))


def _stretches(lines: TextLines) -> Iterator[Stretch]:
    level, title, start, end = 0, "", 0, 0
    fences: list[tuple[int, int]] = []
    is_even, blanks, behind_fence = True, 0, 0
    for place, line in enumerate(lines.seen):
        if not line:
            blanks += 1
            continue
        # Inside a fence "# comment" is not a heading.
        if place < behind_fence:
            blanks = 0
            continue
        must_part = place == behind_fence
        if line[0] in _MARKS:
            mark = _MARKED.match(line)
            if mark is not None and mark["heading"]:
                yield Stretch(level, title, start, end, is_even and lines.are_bare(start, end), fences)
                level, title, start, end = len(mark["heading"]), _title(line[mark.end() :]), 0, 0
                is_even, blanks, fences = True, 0, []
                continue
            if mark is not None:
                behind_fence = _fence_end(lines.seen, place, mark["fence"])
                fences.append(lines.trimmed(place, behind_fence))
                must_part = True
            elif not blanks and not line.strip("=- \t"):
                is_even = False
        if not end:
            start = place
        elif blanks > 1 or (must_part and not blanks):
            is_even = False
        blanks = 0
        end = fences[-1][1] if place < behind_fence else place + 1
    yield Stretch(level, title, start, end, is_even and lines.are_bare(start, end), fences)


def _title(written: str) -> str:
    """The text of a heading, without its marks."""
    title = written.rstrip(" \t")
    if not title.endswith("#"):
        return title
    bare = title.rstrip("#")
    return bare.rstrip(" \t") if bare.endswith((" ", "\t")) else title


def _fence_end(lines: Sequence[str], start: int, fence: str) -> int:
    for place in range(start + 1, len(lines)):
        line = lines[place].strip()
        if line.startswith(fence) and not line.strip(fence[0]):
            return place + 1
    # A fence that is not closed holds the rest of the text, as CommonMark has it.
    return len(lines)


def blocks(lines: TextLines, stretch: Stretch, form: Form) -> Iterator[Block]:
    """The blocks of a stretch in order; blank lines between them are left out.

    Args:
        form: Markdown is read with its fences, tables and underlined headings; text is parted at blank lines; code
            where a line without indentation follows a blank one.
    """
    if form == "text":
        for start, end in lines.parted(stretch.start, stretch.end):
            yield "text", start, end
    elif form == "code":
        yield from _at_margin(lines, stretch.start, stretch.end)
    else:
        place = stretch.start
        for start, end in stretch.fences:
            yield from _paragraphs(lines, place, start)
            yield "code", start, end
            place = end
        yield from _paragraphs(lines, place, stretch.end)


def _at_margin(lines: TextLines, start: int, end: int) -> Iterator[Block]:
    last = start
    for first, behind in lines.parted(start, end):
        # A closing bracket at the margin belongs to the block before it.
        if first > start and lines.seen[first][0] not in " \t})]":
            yield "code", start, last
            start = first
        last = behind
    if last > start:
        yield "code", start, last


def _paragraphs(lines: TextLines, start: int, end: int) -> Iterator[Block]:
    """Lines without a blank one as text, table or underlined heading."""
    seen = lines.seen
    for first, behind in lines.parted(start, end):
        kind: Kind = "text"
        if behind - first > 1:
            if "|" in seen[first]:
                kind = "table" if all("|" in line for line in seen[first:behind]) else "text"
            elif behind - first == 2 and _UNDERLINE.match(seen[first + 1]):
                kind = "heading"
        yield kind, first, behind


def underlined(lines: TextLines, start: int) -> tuple[int, str]:
    """Level and title of a heading that is underlined."""
    return 1 if "=" in lines.seen[start + 1] else 2, lines.seen[start].strip()
