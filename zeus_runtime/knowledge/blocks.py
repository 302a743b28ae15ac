"""A text as the blocks that belong together: headings, paragraphs, fenced code, tables. Pure; one look at each line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple, TypeAlias

from zeus_runtime.knowledge.convert import Form

Kind: TypeAlias = Literal["heading", "text", "code", "table"]

_MARKED: Final = re.compile(r" {0,3}(?:(?P<heading>#{1,6})[ \t]+|(?P<fence>`{3,}|~{3,}))")
_MARKS: Final = " #`~"
"""What a heading or a fence begins with."""
_UNDERLINE: Final = re.compile(r" {0,3}(=+|-+)[ \t]*\Z")


class Block(NamedTuple):
    """Lines that belong together.

    Args:
        kind: what they are.
        text: the lines, joined by line ends.
        first, last: their numbers, from 1.
        level: of a heading, 1 to 6; else 0.
        title: of a heading; else empty.
    """

    kind: Kind
    text: str
    first: int
    last: int
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
        if not line or line.isspace():
            blank = True
            continue
        if start is not None and blank and not (at_margin_only and line[0] in " \t})]"):
            yield _block("code" if at_margin_only else "text", lines, start, number)
            start = None
        if start is None:
            start = number
        blank = False
    if start is not None:
        yield _block("code" if at_margin_only else "text", lines, start, len(lines))


def _markdown(lines: list[str]) -> Iterator[Block]:
    paragraph: int | None = None
    fence_end = 0
    for place, line in enumerate(lines):
        if place < fence_end:
            continue
        if not line or line.isspace():
            if paragraph is not None:
                yield _paragraph(lines, paragraph, place)
                paragraph = None
            continue
        if line[0] in _MARKS and (mark := _MARKED.match(line)):
            if paragraph is not None:
                yield _paragraph(lines, paragraph, place)
                paragraph = None
            if mark["fence"]:
                fence_end = _fence_end(lines, place, mark["fence"])
                yield _block("code", lines, place, fence_end)
            else:
                title = _title(line[mark.end() :])
                yield Block("heading", line, place + 1, place + 1, len(mark["heading"]), title)
        elif paragraph is None:
            paragraph = place
    if paragraph is not None:
        yield _paragraph(lines, paragraph, len(lines))


def _title(written: str) -> str:
    """What stands behind a heading's mark, without the marks that close it."""
    title = written.rstrip(" \t")
    bare = title.rstrip("#")
    return bare.rstrip(" \t") if bare.endswith((" ", "\t")) else title


def _fence_end(lines: list[str], start: int, fence: str) -> int:
    for place in range(start + 1, len(lines)):
        line = lines[place].strip()
        if line.startswith(fence) and not line.strip(fence[0]):
            return place + 1
    return len(lines)


def _paragraph(lines: list[str], start: int, end: int) -> Block:
    """Lines without a blank one as text, table or underlined heading."""
    line = lines[start]
    if end - start == 1:
        return Block("text", line, end, end)
    text = "\n".join(lines[start:end])
    if "|" in line:
        table = all("|" in each for each in lines[start:end])
        return Block("table" if table else "text", text, start + 1, end)
    if end - start == 2 and _UNDERLINE.match(lines[end - 1]):
        return Block("heading", text, start + 1, end, 1 if "=" in lines[end - 1] else 2, line.strip())
    return Block("text", text, start + 1, end)


def _block(kind: Kind, lines: list[str], start: int, end: int) -> Block:
    while end > start and not lines[end - 1].strip():
        end -= 1
    return Block(kind, "\n".join(lines[start:end]), start + 1, end)
