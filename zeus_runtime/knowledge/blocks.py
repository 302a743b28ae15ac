"""A text as the blocks that belong together: headings, paragraphs, fenced code, tables. Pure; one look at each line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple, TypeAlias

from zeus_runtime.knowledge.convert import Form

Kind: TypeAlias = Literal["heading", "text", "code", "table"]

_HEADING: Final = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*\Z")
_UNDERLINE: Final = re.compile(r" {0,3}(=+|-+)[ \t]*\Z")
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")


class Block(NamedTuple):
    """Lines that belong together.

    Args:
        kind: what they are.
        lines: without line ends.
        line: the first one's number, from 1.
        level: of a heading, 1 to 6; else 0.
        title: of a heading; else empty.
    """

    kind: Kind
    lines: tuple[str, ...]
    line: int
    level: int = 0
    title: str = ""


def blocks(text: str, form: Form) -> Iterator[Block]:
    """The blocks of a text in order; blank lines between them are left out.

    Args:
        form: Markdown is read with its headings, fences and tables; text is parted at blank lines; code where a line
            without indentation follows a blank one.
    """
    lines = text.split("\n")
    if form == "markdown":
        return _markdown(lines)
    return _parted(lines, at_margin_only=form == "code")


def _parted(lines: list[str], *, at_margin_only: bool) -> Iterator[Block]:
    start: int | None = None
    blank = False
    for number, line in enumerate(lines):
        if not line.strip():
            blank = True
            continue
        if start is not None and blank and not (at_margin_only and line[:1] in " \t})]"):
            yield _block("code" if at_margin_only else "text", lines, start, number)
            start = None
        if start is None:
            start = number
        blank = False
    if start is not None:
        yield _block("code" if at_margin_only else "text", lines, start, len(lines))


def _markdown(lines: list[str]) -> Iterator[Block]:
    place = 0
    while place < len(lines):
        line = lines[place]
        if not line.strip():
            place += 1
            continue
        first = line.lstrip(" ")[:1]
        if first in "`~" and (fence := _FENCE.match(line)):
            end = _fence_end(lines, place, fence[1])
            yield _block("code", lines, place, end)
        elif first == "#" and (heading := _HEADING.match(line)):
            end = place + 1
            yield Block("heading", (line,), place + 1, len(heading[1]), heading[2])
        else:
            end = _paragraph_end(lines, place)
            last = lines[end - 1]
            if end - place == 2 and _UNDERLINE.match(last) and "|" not in line:
                level = 1 if "=" in last else 2
                yield Block("heading", (line, last), place + 1, level, line.strip())
            else:
                table = end - place > 1 and all("|" in each for each in lines[place:end])
                yield _block("table" if table else "text", lines, place, end)
        place = end


def _fence_end(lines: list[str], start: int, fence: str) -> int:
    for place in range(start + 1, len(lines)):
        line = lines[place].strip()
        if line.startswith(fence) and not line.strip(fence[0]):
            return place + 1
    return len(lines)


def _paragraph_end(lines: list[str], start: int) -> int:
    for place in range(start + 1, len(lines)):
        line = lines[place]
        stripped = line.strip()
        if not stripped:
            return place
        if stripped[0] == "#" and _HEADING.match(line):
            return place
        if stripped[0] in "`~" and _FENCE.match(line):
            return place
    return len(lines)


def _block(kind: Kind, lines: list[str], start: int, end: int) -> Block:
    while end > start and not lines[end - 1].strip():
        end -= 1
    return Block(kind, tuple(lines[start:end]), start + 1)
