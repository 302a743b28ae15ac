"""Cut text that may contain secrets, only between words, because half of a secret cannot be recognised. Pure.

Text that is masked afterwards contains every secret completely or not at all. A word is a run without a space; in a
script that writes no spaces, each letter is a word. The place of the cut does not depend on the known secrets, so it
reveals nothing about them.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_BLANKS: Final = re.compile("(?: |\t|\r?\n)+")


def cut_text(text: str, most: int) -> str:
    """``text``, or as many whole words of its beginning as fit into ``most`` characters, followed by its length."""
    if len(text) <= most:
        return text
    end = most if _parts(text[most]) else _word_start(text, most)
    return f"{text[:end].rstrip()}… ({len(text):,} characters)"


def unwrapped(text: str) -> str:
    """``text`` in one line: one space for each run of spaces, tabs and line ends.

    Control characters stay; ``str.split`` would drop them.
    """
    return _BLANKS.sub(" ", text).strip(" ")


def without_last_word(text: str) -> str:
    """``text`` without its last word, which may have been cut."""
    return f"{text[: _word_start(text, len(text))].rstrip()}…"


def last_words(data: bytes, most: int) -> str:
    """The whole words within the last ``most`` bytes of a program's output, as text.

    Args:
        data: at least one byte more than ``most`` if the output was longer, so that a cut word can be recognised.
    """
    text = data[-most:].decode(errors="replace")
    start = 0
    if len(data) > most and not data[-most - 1 : -most].isspace():
        while start < len(text) and not _parts(text[start]):
            start += 1
    # `strip()` alone would drop control characters.
    return text[start:].strip(" \t\r\n")


def _word_start(text: str, end: int) -> int:
    while end and not _parts(text[end - 1]):
        end -= 1
    return end


def _parts(char: str) -> bool:
    return char.isspace() or unicodedata.category(char) == "Lo"
