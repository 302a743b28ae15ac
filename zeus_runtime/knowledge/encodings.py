"""Text from bytes whose encoding nobody names."""

from __future__ import annotations

import codecs
from typing import Final

_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_GUESSED: Final = {
    "cp1252": "cp1252",
    "cp1251": "cp1251",
    "gb18030": "gb18030",
    "big5": "big5hkscs",
    "shift_jis": "cp932",
    "euc_jp": "euc_jp",
    "euc_kr": "cp949",
}
"""Encodings to guess among, and the larger one that a text of each may have. The list is short because, among all
encodings, some wrong one always fits too."""
_LOOKED_AT: Final = 200_000


def marked_encoding(data: bytes) -> str | None:
    """The encoding that a byte order mark names; None without a mark."""
    return next((encoding for mark, encoding in _MARKS if data.startswith(mark)), None)


def guessed_encoding(data: bytes) -> str | None:
    """UTF-8, or the encoding that the bytes look like, by charset-normalizer; None if they look like no text.

    A guess by a few letters may be wrong.
    """
    try:
        data.decode()
    except UnicodeDecodeError:
        from charset_normalizer import from_bytes

        best = from_bytes(data[:_LOOKED_AT], cp_isolation=list(_GUESSED)).best()
        return None if best is None else _GUESSED.get(best.encoding, best.encoding)
    return "utf-8"
