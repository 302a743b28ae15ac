"""The encoding of bytes that come without one."""

from __future__ import annotations

import codecs
from typing import Final

# UTF-32 before UTF-16: the mark of the one (FF FE 00 00) begins with that of the other (FF FE).
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
_BEFORE: Final = 1_000
_LONGEST: Final = 4
"""Bytes of a character in these encodings, at most."""


def marked_encoding(data: bytes) -> str | None:
    """The encoding that a byte order mark names; None without a mark."""
    return next((encoding for mark, encoding in _MARKS if data.startswith(mark)), None)


def guessed_encoding(data: bytes) -> str | None:
    """UTF-8, or the encoding that the bytes look like, by charset-normalizer; None if they look like no text.

    A guess by a few letters may be wrong.
    """
    try:
        data.decode()
    except UnicodeDecodeError as error:
        from charset_normalizer import from_bytes

        # The bytes before are most often ASCII, which fits every encoding.
        start = max(0, error.start - _BEFORE)
        sample = data[start : start + _LOOKED_AT]
        # A sample that ends within a character is invalid in the encoding of its text.
        for left_out in range(_LONGEST if start + _LOOKED_AT < len(data) else 1):
            best = from_bytes(sample[: len(sample) - left_out], cp_isolation=list(_GUESSED)).best()
            if best is not None:
                return _GUESSED.get(best.encoding, best.encoding)
        return None
    return "utf-8"
