"""Find text in base64 or hexadecimal within a text, and where each of its bytes is written."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import accumulate
from typing import Final, NamedTuple, TypeAlias

Runs: TypeAlias = Sequence[tuple[int, int]]
"""Where pieces of a text start and end."""
LEAST_BYTES: Final = 8
"""Of an encoded secret; fewer are text by chance too often."""
_MOST_ENCODED: Final = 200_000
"""Characters of a value that is decoded: more than a variable of Linux can have."""
# Each run is taken whole (`*+`): to try each split of many blanks would take hours.
_WHOLE_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-][A-Za-z0-9+/_\s-]{10,}+=?+\s*+=?+\s*+")
_CONTROLS: Final = re.compile(r"[\0-\x08\x0b\x0c\x0e-\x1f\x7f]")
_TEXT_BYTES: Final = bytes(byte in (0x00, 0x09, 0x0A, 0x0D, *range(0x20, 0x7F)) for byte in range(256))
"""A one for ASCII, and for the zeros of UTF-16."""


class _Encoding(NamedTuple):
    """An encoding in which each character stands for a few bits.

    Args:
        alphabet: its characters, as in a regular expression.
        bits: of a character.
        group: the characters after which a character starts a byte again.
        zero: the character whose bits are all zero.
        last: the character whose bits are all one; bytes of it are no text.
    """

    alphabet: str
    bits: int
    group: int
    zero: str
    last: str

    @property
    def least(self) -> int:
        """The characters of ``LEAST_BYTES``."""
        return -(-8 * LEAST_BYTES // self.bits)


_BASE64: Final = _Encoding("A-Za-z0-9+/_-", 6, 4, "A", "/")
_HEX: Final = _Encoding("0-9A-Fa-f", 4, 2, "0", "f")


class DecodedText(NamedTuple):
    """A piece of decoded text.

    Args:
        text: one ASCII character for each byte.
        encoding: the one it was written in.
        first: how many bytes precede it, counted from ``origin``.
        origin: the place in the encoded text where a byte starts with a character.
    """

    text: str
    encoding: _Encoding
    first: int
    origin: int

    def begins(self, at: int) -> int:
        """The place of the character with the first bit of the byte ``at``."""
        return self.origin + 8 * (self.first + at) // self.encoding.bits

    def covered(self, start: int, end: int) -> tuple[int, int]:
        """The places of the characters of which these bytes decide every bit."""
        return self.origin - (-8 * (self.first + start) // self.encoding.bits), self.begins(end)

    def notation(self, written: str, start: int) -> str:
        """How ``written``, which starts at this byte, is encoded, without what the secret decides."""
        group_bytes = self.encoding.group * self.encoding.bits // 8
        marks = re.sub("[^-_]", "", written) if self.encoding is _BASE64 else re.sub("[^A-F]", "", written)
        return f"{self.encoding.bits}/{(self.first + start) % group_bytes}/{bool(marks)}"


def decoded_pieces(text: str, runs: Runs) -> Iterator[DecodedText]:
    """The pieces of text that ``text`` holds in base64, also for URLs, or in hexadecimal, wherever a byte starts.

    Args:
        runs: its ``long_runs``.
    """
    if runs:
        yield from _pieces(text, runs, _BASE64)
        yield from _pieces(text, long_runs(text, _HEX), _HEX)


def text_of_base64(value: str) -> str:
    """The text that a whole value in base64, also for URLs or wrapped, stands for; empty if it stands for none."""
    from binascii import a2b_base64

    if len(value) > _MOST_ENCODED or not _WHOLE_BASE64.fullmatch(value):
        return ""
    chars = "".join(value.split()).rstrip("=").replace("-", "+").replace("_", "/")
    try:
        text = a2b_base64(chars + "=" * (-len(chars) % 4), strict_mode=True).decode("utf-8-sig")
    except ValueError:
        return ""
    return "" if _CONTROLS.search(text) else text


def long_runs(text: str, encoding: _Encoding = _BASE64) -> Runs:
    """Where the runs of an encoding's characters start and end that are long enough for a secret."""
    return list(_runs(text.encode("latin-1", "replace"), _characters(encoding), encoding.least))


def _pieces(text: str, runs: Runs, encoding: _Encoding) -> Iterator[DecodedText]:
    """The texts in ``runs``, which are decoded all at once: most of them are words, and a call for each is slow."""
    between = 3 * encoding.last  # one byte of it at least, wherever bytes start
    joined = between.join(["", *(text[start:end] for start, end in runs), ""])
    starts = list(accumulate((end - start + len(between) for start, end in runs), initial=len(between)))
    for shift in range(encoding.group if runs else 0):
        data = _decoded(joined[shift:], encoding)
        for first, after in _runs(data, _TEXT_BYTES, LEAST_BYTES):
            # A byte of text starts with a zero bit, so never between two runs; it may end there.
            at = bisect_right(starts, shift + 8 * first // encoding.bits) - 1
            run = runs[at][1] - runs[at][0]
            end = min(after, (starts[at] + run - shift) * encoding.bits // 8)
            if end - first >= LEAST_BYTES:
                piece = data[first:end].decode("ascii")
                yield DecodedText(piece, encoding, first, runs[at][0] - starts[at] + shift)


def _decoded(chars: str, encoding: _Encoding) -> bytes:
    """The bytes of all whole groups."""
    from binascii import a2b_base64

    whole = chars[: len(chars) // encoding.group * encoding.group]
    if encoding is _HEX:
        return bytes.fromhex(whole)
    return a2b_base64(whole.replace("-", "+").replace("_", "/"))


def _runs(data: bytes, wanted: bytes, least: int) -> Iterator[tuple[int, int]]:
    """Where the runs of ``least`` bytes and more start and end for which the table ``wanted`` has a one."""
    # `find` leaps over what is too short; a regular expression would look at each byte.
    kinds, run, end = data.translate(wanted) + b"\0", b"\1" * least, 0
    while (start := kinds.find(run, end)) >= 0:
        end = kinds.find(b"\0", start)
        yield start, end


@cache
def _characters(encoding: _Encoding) -> bytes:
    return bytes(re.match(f"[{encoding.alphabet}]", chr(byte)) is not None for byte in range(256))
