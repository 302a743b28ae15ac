"""Pages of a text file of any size, read in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from io import BytesIO
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from zeus_plugins.tools.filesystem.texts import BOM, line_text
from zeus_runtime.plugin import cut_place
from zeus_runtime.plugin.files import masked_bytes

if TYPE_CHECKING:
    from zeus_runtime.plugin import Redactor

_CHUNK_BYTES = 1 << 20
_MASKED_BYTES = 8 << 20


class PageLine(NamedTuple):
    """A line: its number (from 1), its bytes (at most the first ``keep``) and its full length in bytes."""

    number: int
    kept: bytes
    length: int


class LinePage(NamedTuple):
    """Lines ``first`` to ``last``; ``last`` is ``first - 1`` when there are none.

    Args:
        text: numbered lines.
        total: number of lines of the file; None if they were not counted to the end.
        windows: whether a line of the page ends with CRLF.
    """

    text: str
    first: int
    last: int
    total: int | None
    windows: bool


class PageLimits(NamedTuple):
    """The most lines of a page, characters of a line and characters of a page."""

    lines: int
    line_chars: int
    chars: int


def read_page(
    file: BinaryIO,
    first: int,
    limits: PageLimits,
    expired: Callable[[], bool],
    secrets: Redactor | None = None,
) -> LinePage:
    """The page that starts at line ``first``, with the number of all lines unless the time runs out first.

    Args:
        file: a regular file, at its start.
        first: counted from 1.
        expired: whether to stop counting; called between chunks.
        secrets: masked before the file is cut into lines; in a large file, before a line is cut.
    """
    file, secrets = masked_whole(file, secrets)
    skipped = _skip(file, first - 1, expired)
    if skipped < first - 1:
        return LinePage("", first, first - 1, None if expired() else skipped, windows=False)
    shown: list[str] = []
    size = 0
    last = first - 1
    windows = False
    # A character has at most 4 bytes in UTF-8, so the kept bytes have as many characters as are shown.
    for line in bounded_lines(file, limits.line_chars * 4 + len(BOM), first):
        text = _cut(line, limits.line_chars, secrets)
        size += len(text) + 1
        # At least one line, also one that is too long for the page: otherwise reading could not continue.
        if len(shown) == limits.lines or (shown and size > limits.chars):
            total = _count(file, line, expired)
            return LinePage("\n".join(shown), first, last, total, windows)
        windows = windows or line.kept.endswith(b"\r\n")
        shown.append(text)
        last = line.number
    return LinePage("\n".join(shown), first, last, last, windows)


def bounded_lines(file: BinaryIO, keep: int, first: int = 1) -> Iterator[PageLine]:
    """The lines from the file's position to its end; of each line, at most the first ``keep`` bytes are kept in memory.

    After each line is yielded, the file's position is just behind that line, so the caller may read on from there.
    """
    number = first
    while start := file.readline(keep):
        length = len(start)
        rest = start
        while not rest.endswith(b"\n") and (rest := file.readline(_CHUNK_BYTES)):
            length += len(rest)
        yield PageLine(number, start, length)
        number += 1


def _skip(file: BinaryIO, lines: int, expired: Callable[[], bool]) -> int:
    skipped = 0
    unfinished = False
    while skipped < lines and not expired():
        position = file.tell()
        chunk = file.read(_CHUNK_BYTES)
        if not chunk:
            return skipped + unfinished
        count = chunk.count(b"\n")
        if skipped + count >= lines:
            end = -1
            for _ in range(lines - skipped):
                end = chunk.index(b"\n", end + 1)
            file.seek(position + end + 1)
            return lines
        skipped += count
        unfinished = not chunk.endswith(b"\n")
    return skipped


def _count(file: BinaryIO, line: PageLine, expired: Callable[[], bool]) -> int | None:
    total = line.number
    tail = b"\n"
    while chunk := file.read(_CHUNK_BYTES):
        if expired():
            return None
        total += chunk.count(b"\n")
        tail = chunk
    return total + (not tail.endswith(b"\n"))


def masked_whole(file: BinaryIO, secrets: Redactor | None) -> tuple[BinaryIO, Redactor | None]:
    """A masked copy of the file in memory, and the secrets that the caller still has to mask in each line.

    The whole file is masked before it is cut into lines, because a secret may be wrapped over several lines; then
    nothing is left to mask. A file of more than 8 MiB is returned unchanged, with ``secrets``.
    """
    if secrets is None or not secrets.forms:
        return file, None
    start = file.tell()
    data = file.read(_MASKED_BYTES + 1)
    if len(data) > _MASKED_BYTES:
        file.seek(start)
        return file, secrets
    return BytesIO(masked_bytes(data, secrets)), None


def masked_line(text: str, secrets: Redactor | None, *, is_cut: bool) -> str:
    """A line with its secrets masked; a cut line also loses its last word."""
    if secrets is None:
        return text
    return secrets.settled(text)[0] if is_cut else secrets.text(text)


def _cut(line: PageLine, chars: int, secrets: Redactor | None) -> str:
    kept = line.kept.removeprefix(BOM) if line.number == 1 else line.kept
    text = masked_line(line_text(kept), secrets, is_cut=line.length > len(line.kept))
    if line.length == len(line.kept) and len(text) <= chars:
        return f"{line.number}\t{text}"
    end = cut_place(text, chars)
    return f"{line.number}\t{text[:end]}... [cut: the line has {line.length:,} bytes; grep shows parts of it]"
