"""Join blocks into chunks of a size, under their headings, with the position of each. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

from zeus_runtime.knowledge.blocks import Kind, Stretch, TextLines, blocks, stretches, underlined
from zeus_runtime.knowledge.convert import Converted, Form, Page
from zeus_runtime.knowledge.long_blocks import parts, size_of

CHUNK_TOKENS: Final = 400
OVERLAP_TOKENS: Final = 60

_WEIGHT: Final = 2
"""Of a word of a name or a heading, in words of the text: a field weight of BM25F (Robertson and others, 2004)."""

_BETWEEN: Final = "\n\n"
"""Between the pieces of a chunk."""
_HEADING_CHARACTERS: Final = 200
TOKEN_BYTES: Final = 4


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
        """The text for its vector, with its headings: a search for a heading finds the chunk."""
        return f"{self.heading}\n{self.content}" if self.heading else self.content

    def worded(self, label: str) -> str:
        """The text for its words: those of its file's name and of its headings count ``_WEIGHT`` times.

        Args:
            label: the file's name in citations.
        """
        names = f"{label}\n{self.heading}\n" if self.heading else f"{label}\n"
        return names * _WEIGHT + self.content


def tokens_of(text: str) -> float:
    """About how many tokens a text has: its UTF-8 bytes by four, within 5 % for Chinese and most prose."""
    return size_of(text) / TOKEN_BYTES


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
    limit, overlap = chunk_tokens * TOKEN_BYTES, overlap_tokens * TOKEN_BYTES
    headings = _Headings()
    found: list[Chunk] = []
    for page in document.pages:
        if page.heading:
            headings.begin(page.heading)
        _Page(page, document.form, headings, found, limit=limit, overlap=overlap).cut()
    if not found and headings.trail:
        found.append(Chunk("", "line 1", headings.path))
    return found


def with_context(some: Sequence[Chunk], at: int) -> tuple[str, str, str]:
    """The text before one of the chunks of a run, its own text, and the text after it.

    A chunk may begin with the end of the one before: that is of the chunk, and only once in the three texts.
    """
    texts = [each.content for each in some]
    for number, (first, second) in enumerate(pairwise(some)):
        repeated, border, rest = second.content.partition(_BETWEEN)
        if border and first.content.endswith(repeated):
            if number < at:
                texts[number] = texts[number].removesuffix(repeated)
            else:
                texts[number + 1] = rest
    return "\n".join(texts[:at]), texts[at], "\n".join(texts[at + 1 :])


class _Headings:
    """The headings above the current position.

    Attributes:
        trail: the level of each, and its title after those above it.
        path: the titles of all, cut to a length.
    """

    def __init__(self) -> None:
        self.trail: list[tuple[int, str]] = []
        self.path = ""

    def begin(self, path: str) -> None:
        """Stand under these headings alone."""
        self.trail.clear()
        self.enter(1, path)

    def enter(self, level: int, title: str) -> None:
        while self.trail and self.trail[-1][0] >= level:
            self.trail.pop()
        above = self.trail[-1][1] if self.trail else ""
        path = f"{above} > {title}" if above and title else above or title
        self.trail.append((level, path))
        # The end is kept: the innermost headings say most about the chunk. It begins with a whole word, as a part of a
        # secret cannot be recognised.
        end = path[2 - _HEADING_CHARACTERS :]
        self.path = path if len(path) <= _HEADING_CHARACTERS else "… " + (end.partition(" ")[2] or end)


_Piece: TypeAlias = tuple[int, int, str]
"""What is put into a chunk: its first and its last line, and its text."""


class _Page:
    """A page that is being cut; its chunks go to the end of ``found``.

    Args:
        limit: of a chunk, and ``overlap`` of what it begins with, in bytes.
    """

    def __init__(
        self, page: Page, form: Form, headings: _Headings, found: list[Chunk], *, limit: int, overlap: int
    ) -> None:
        self._form: Form = form
        self._headings = headings
        self._found = found
        self._limit = limit
        self._most_again = overlap
        self._prefix = "" if page.number is None else f"page {page.number}, "
        self._lines = TextLines(page.text)
        self._is_ascii = page.text.isascii()
        self._pending: list[_Piece] = []
        self._filled = 0

    def cut(self) -> None:
        for stretch in stretches(self._lines, self._form):
            if stretch.level:
                self._headings.enter(stretch.level, stretch.title)
            start, end = stretch.start, stretch.end
            if start == end:
                continue
            if stretch.is_even:
                text = self._lines.text(start, end)
                if self._size_of(text) <= self._limit:
                    self._put(start, end - 1, text)
                    continue
            self._fill(stretch)

    def _size_of(self, text: str) -> int:
        return len(text) if self._is_ascii else size_of(text)

    def _fill(self, stretch: Stretch) -> None:
        last_kind: Kind = "text"
        for kind, start, end in blocks(self._lines, stretch, self._form):
            if kind == "heading":
                self._close()
                self._headings.enter(*underlined(self._lines, start))
                continue
            text = self._lines.text(start, end)
            size = self._size_of(text)
            if size <= self._limit:
                self._add((start, end - 1, text), size, last_kind)
                last_kind = kind
                continue
            for text, first, last in parts(kind, self._lines.written[start:end], self._limit):
                self._add((start + first, start + last, text), size_of(text), last_kind)
                last_kind = kind
        self._close()

    def _add(self, piece: _Piece, size: int, last_kind: Kind) -> None:
        if self._pending and self._filled + size > self._limit:
            # Before the chunk is closed, which empties what is pending. The repetition leaves room for the whole new
            # piece.
            again = self._again(last_kind, min(self._most_again, self._limit - size))
            self._close()
            if again is not None:
                self._pending = [again]
                self._filled = size_of(again[2])
        self._pending.append(piece)
        self._filled += size

    def _again(self, kind: Kind, limit: int) -> _Piece | None:
        """The end of what is pending, if it is prose: whole lines or sentences, at most ``limit`` bytes."""
        if kind != "text" or limit < TOKEN_BYTES:
            return None
        _, last, whole = piece = self._pending[-1]
        size = size_of(whole)
        if size <= limit:
            return piece if len(self._pending) > 1 else None
        # In characters, by the text's mean of bytes for one: about `limit` bytes.
        tail = whole[-int(len(whole) * limit / size) :]
        cut = min(
            (
                place
                for end in ("\n", ". ", "。", "! ", "? ")
                if (place := tail.find(end) + len(end)) >= len(end)
            ),
            default=tail.find(" ") + 1,
        )
        text = tail[cut:].strip()
        return (last - text.count("\n"), last, text) if text else None

    def _close(self) -> None:
        """Make a chunk of what is pending."""
        if self._pending:
            text = _BETWEEN.join([text for _, _, text in self._pending])
            self._put(self._pending[0][0], self._pending[-1][1], text)
            self._pending, self._filled = [], 0

    def _put(self, first: int, last: int, text: str) -> None:
        lines = f"line {first + 1}" if first == last else f"lines {first + 1}-{last + 1}"
        self._found.append(Chunk(self._headings.path, self._prefix + lines, text))
