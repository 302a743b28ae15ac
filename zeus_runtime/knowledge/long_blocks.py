"""A block that is longer than a chunk, parted between lines, or within one where a line alone is too long. Pure.

Sizes are bytes of UTF-8; a line's end counts as one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from zeus_runtime.knowledge.blocks import Kind

Part: TypeAlias = tuple[str, int, int]
"""A part's text, of a table with the table's head before it, and its first and last line, from 0."""


def size_of(text: str) -> int:
    """Bytes in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def parts(kind: Kind, lines: Sequence[str], limit: int) -> Iterator[Part]:
    """The parts of a block, none longer than ``limit``, but for a table's head that is long itself."""
    if kind != "table":
        text = "\n".join(lines)
        edges = _edges(text, limit) if text.isascii() else None
        if edges is not None:
            return _between(text, edges)
    return _parted(lines, limit, is_table=kind == "table")


def _between(text: str, edges: Sequence[tuple[int, int]]) -> Iterator[Part]:
    line = 0
    for start, end in edges:
        last = line + text.count("\n", start, end)
        yield text[start:end], line, last
        line = last + 1


def _edges(text: str, limit: int) -> list[tuple[int, int]] | None:
    """Where each part of a text in ASCII begins and ends; None where a line does not fit into one."""
    found = []
    start = 0
    # The line end counts too, hence the 1.
    while len(text) - start + 1 > limit:
        end = text.rfind("\n", start, start + limit)
        if end < 0 or (text.find("\n", end + 1, end + limit + 2) < 0 and len(text) - end - 1 > limit):
            return None
        found.append((start, end))
        start = end + 1
    return [*found, (start, len(text))]


def _parted(lines: Sequence[str], limit: int, *, is_table: bool) -> Iterator[Part]:
    head = lines[:2] if is_table and _is_rule(lines) else []
    head_size = sum(size_of(line) + 1 for line in head)
    # A head that fills half of each part would leave little room for rows, so it is repeated in none.
    if head_size * 2 > limit:
        head, head_size = [], 0
    room = limit - head_size
    kept: list[str] = []
    first = size = 0
    for number, line in enumerate(lines):
        for part in [line] if size_of(line) <= room else _parts(line, room):
            cost = size_of(part) + 1
            if kept and size + cost > limit:
                yield "\n".join(kept), first, max(first, number - 1 if part == line else number)
                again = bool(head) and number > 1
                kept, size = ([*head], head_size) if again else ([], 0)
                first = number
            kept.append(part)
            size += cost
    if kept:
        yield "\n".join(kept), first, max(first, len(lines) - 1)


def _is_rule(lines: Sequence[str]) -> bool:
    return len(lines) > 2 and not set(lines[1]) - set("|-: \t")


def _parts(line: str, limit: int) -> Iterator[str]:
    """The line, or, if it alone is too long, parts of it that end after a sentence or a word where possible."""
    while (whole := size_of(line)) > limit:
        size = max(1, int(len(line) * limit / whole))
        window = line[:size]
        cut = max(
            (window.rfind(end) + len(end) for end in (". ", "。", "! ", "? ") if end in window), default=0
        )
        if cut < max(1, size // 2):
            cut = window.rfind(" ") + 1
        if cut < max(1, size // 2):
            cut = size
        yield line[:cut].rstrip()
        line = line[cut:]
    if line or limit:
        yield line
