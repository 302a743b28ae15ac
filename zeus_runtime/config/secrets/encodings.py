"""The text of a file of any encoding, and whether it is one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

_BYTE_ORDERS: Final = (
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe\x00\x00", "utf-32-le"),
    (b"\x00\x00\xfe\xff", "utf-32-be"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
_NO_SIGN: Final = re.compile("[\0-\x08\x0e-\x1a\x1c-\x1f\x7f\ue000-\uf8ff\ufffe\uffff]")
"""Control characters but those of line ends, margins and colours, and characters that no standard assigns."""


def decoded(data: bytes) -> tuple[str, bool]:
    """The text of a file, and whether it is sure that this is its text: by its byte-order mark, or in UTF-8.

    Of another one, as much as can be told.
    """
    for mark, encoding in _BYTE_ORDERS:
        if data.startswith(mark):
            text = data[len(mark) :].decode(encoding, "replace")
            return _with_line_ends(text), "\ufffd" not in text
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.decode("cp1252", "replace")
    is_sure = "\0" not in text and len(data) == len(text.encode())
    # Of each two bytes, UTF-16 without a mark has one zero; in a binary file, they end texts.
    gap = "\n" if "\0" in text and is_binary(data) else ""
    return _with_line_ends(text.replace("\0", gap)), is_sure


def is_binary(data: bytes) -> bool:
    """Whether bytes are no text in any encoding: each reading of them has signs that no text has."""
    if data.startswith(tuple(mark for mark, _ in _BYTE_ORDERS)):
        return False
    return not any(map(_may_be_text, _readings(data)))


def _readings(data: bytes) -> Iterator[str]:
    # In it each byte is a sign; of a text in another such encoding or in UTF-8, control characters stay what they are.
    yield data.decode("latin-1")
    for encoding in ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"):
        with suppress(UnicodeDecodeError):
            yield data[: len(data) // 4 * 4].decode(encoding)


def _may_be_text(text: str) -> bool:
    return bool(text) and _NO_SIGN.search(text) is None


def _with_line_ends(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")
