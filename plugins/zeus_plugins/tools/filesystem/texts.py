"""Lossless conversion between bytes and text: UTF-8 with its BOM and line ends, other bytes escaped. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

BOM = b"\xef\xbb\xbf"
SNIFFED_BYTES = 8_192

_MAGIC = (
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"%PDF", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive (or an office document)"),
    (b"\x1f\x8b", "gzip data"),
    (b"\x7fELF", "an ELF program"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"\xff\xfe", "UTF-16 text"),
    (b"\xfe\xff", "UTF-16 text"),
)


class Decoded(NamedTuple):
    """A file's text without its BOM, whether the file has a BOM, and its more frequent line end."""

    text: str
    has_bom: bool
    newline: str


def binary_kind(start: bytes) -> str | None:
    """The kind of a binary file, judged by its first 8 KiB, such as ``a PNG image``; None for text."""
    for magic, kind in _MAGIC:
        if start.startswith(magic):
            return kind
    return "binary data" if b"\0" in start[:SNIFFED_BYTES] else None


def decode(data: bytes) -> Decoded:
    """A file's text. Bytes that are not UTF-8 become surrogates, which ``encode`` turns back into the same bytes."""
    has_bom = data.startswith(BOM)
    text = data[len(BOM) if has_bom else 0 :].decode("utf-8", "surrogateescape")
    windows = text.count("\r\n")
    # `count("\n")` counts those of CRLF too.
    return Decoded(text, has_bom, "\r\n" if windows * 2 > text.count("\n") else "\n")


def whole_text(data: bytes) -> str:
    """A file's text with its BOM and line ends; different bytes always give different texts."""
    return data.decode("utf-8", "surrogateescape")


def encode(decoded: Decoded) -> bytes:
    """The file's bytes; the inverse of ``decode``."""
    return (BOM if decoded.has_bom else b"") + decoded.text.encode("utf-8", "surrogateescape")


def line_text(line: bytes) -> str:
    """One line without its line end, as valid text: bytes that are not UTF-8 become ``\\xNN``."""
    return line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", "backslashreplace")


def plural(count: int, noun: str) -> str:
    """``1 line``, ``2 lines``, ``1,000 matches``, ``3 entries``."""
    if count == 1:
        return f"1 {noun}"
    ending = (
        re.sub("y$", "ies", noun)
        if noun.endswith("y")
        else f"{noun}es"
        if noun.endswith("ch")
        else f"{noun}s"
    )
    return f"{count:,} {ending}"
