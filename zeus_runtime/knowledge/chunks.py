"""Blocks put together to chunks of a size, under their headings, with the place where each stands. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from zeus_runtime.knowledge.blocks import Block, blocks
from zeus_runtime.knowledge.convert import Converted

CHUNK_TOKENS: Final = 400
OVERLAP_TOKENS: Final = 60

_HEADING_CHARACTERS: Final = 200


class Chunk(NamedTuple):
    """A part of a document.

    Args:
        heading: the headings above it, outermost first, joined by `` > ``; empty where there are none.
        position: ``lines 3-20`` or ``page 4, lines 1-9``.
        content: its text.
    """

    heading: str
    position: str
    content: str

    @property
    def embedded(self) -> str:
        """What its vector and its words are made of: a chunk is found by the headings above it too."""
        return f"{self.heading}\n{self.content}" if self.heading else self.content


def tokens_of(text: str) -> float:
    """About how many tokens a text has: its UTF-8 bytes by four, within 5 % for Chinese and most prose."""
    return (len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))) / 4


def chunks(
    document: Converted, *, chunk_tokens: int = CHUNK_TOKENS, overlap_tokens: int = OVERLAP_TOKENS
) -> list[Chunk]:
    """The chunks of a document, in order.

    A chunk ends where the next block would not fit and where a heading of the same or a higher level begins. Blocks
    are kept whole where they fit; a longer one is parted between lines, or within one where a line alone is too long.
    A further part of a table begins with the table's head. Where a chunk ends for its size in prose, the next begins
    with its last sentences or lines.

    Args:
        chunk_tokens: of a chunk, at most, about.
        overlap_tokens: what of a chunk the next begins with, at most, about; 0 for nothing.
    """
    found: list[Chunk] = []
    trail: list[tuple[int, str]] = []
    heading = ""
    for page in document.pages:
        pending: list[Block] = []
        size = 0.0
        for block in blocks(page.text, document.form):
            if block.kind == "heading":
                if pending:
                    found.append(_closed(pending, heading, page.number))
                    pending, size = [], 0.0
                while trail and trail[-1][0] >= block.level:
                    trail.pop()
                trail.append((block.level, block.title))
                heading = _path(trail)
                continue
            tokens = tokens_of(block.text)
            if tokens > chunk_tokens:
                pieces = [(piece, tokens_of(piece.text)) for piece in _parted(block, chunk_tokens)]
            else:
                pieces = [(block, tokens)]
            for piece, tokens in pieces:
                if pending and size + tokens > chunk_tokens:
                    found.append(_closed(pending, heading, page.number))
                    pending = _overlap(pending, min(overlap_tokens, chunk_tokens - tokens))
                    size = sum(tokens_of(each.text) for each in pending)
                pending.append(piece)
                size += tokens
        if pending:
            found.append(_closed(pending, heading, page.number))
    if not found and trail:
        found.append(Chunk("", "line 1", heading))
    return found


def _closed(pending: Sequence[Block], heading: str, page: int | None) -> Chunk:
    first, last = pending[0].first, pending[-1].last
    lines = f"line {first}" if first == last else f"lines {first}-{last}"
    return Chunk(
        heading,
        lines if page is None else f"page {page}, {lines}",
        "\n\n".join([each.text for each in pending]),
    )


def _path(trail: Iterable[tuple[int, str]]) -> str:
    path = " > ".join([title for _, title in trail if title])
    return path if len(path) <= _HEADING_CHARACTERS else "… " + path[2 - _HEADING_CHARACTERS :]


def _parted(block: Block, limit: int) -> Iterator[Block]:
    lines = block.text.split("\n")
    head = lines[:2] if block.kind == "table" and _is_rule(lines) else []
    head_tokens = sum(tokens_of(line) + 0.25 for line in head)
    if head_tokens * 2 > limit:
        head, head_tokens = [], 0.0
    room = limit - head_tokens
    kept: list[str] = []
    first, size = block.first, 0.0
    for number, line in enumerate(lines, block.first):
        tokens = tokens_of(line)
        parts = (
            [(line, tokens)] if tokens <= room else [(each, tokens_of(each)) for each in _parts(line, room)]
        )
        for part, tokens in parts:
            cost = tokens + 0.25
            if kept and size + cost > limit:
                yield _part(block, kept, first, number - 1 if part == line else number)
                again = bool(head) and number > block.first + 1
                kept, size = (list(head), head_tokens) if again else ([], 0.0)
                first = number
            kept.append(part)
            size += cost
    if kept:
        yield _part(block, kept, first, block.last)


def _part(block: Block, lines: Sequence[str], first: int, last: int) -> Block:
    return Block(block.kind, "\n".join(lines), first, max(first, last))


def _is_rule(lines: Sequence[str]) -> bool:
    return len(lines) > 2 and not set(lines[1]) - set("|-: \t")


def _parts(line: str, limit: float) -> Iterator[str]:
    """The line, or if it is too long alone, parts of it that end after a sentence or a word where they can."""
    while (tokens := tokens_of(line)) > limit:
        size = max(1, int(len(line) * limit / tokens))
        window = line[:size]
        cut = max(
            (window.rfind(end) + len(end) for end in (". ", "。", "! ", "? ") if end in window), default=0
        )
        if cut < size // 2:
            cut = window.rfind(" ") + 1
        if cut < size // 2:
            cut = size
        yield line[:cut].rstrip()
        line = line[cut:]
    if line or limit:
        yield line


def _overlap(pending: Sequence[Block], limit: float) -> list[Block]:
    """The end of what was closed, if it is prose: whole lines or sentences, at most ``limit`` tokens."""
    last = pending[-1]
    if last.kind != "text" or limit < 1:
        return []
    tokens = tokens_of(last.text)
    if tokens <= limit:
        return [last] if len(pending) > 1 else []
    tail = last.text[-int(len(last.text) * limit / tokens) :]
    cut = min(
        (place for end in ("\n", ". ", "。", "! ", "? ") if (place := tail.find(end) + len(end)) >= len(end)),
        default=tail.find(" ") + 1,
    )
    text = tail[cut:].strip()
    return [Block("text", text, last.last - text.count("\n"), last.last)] if text else []
