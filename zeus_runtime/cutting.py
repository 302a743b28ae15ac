"""Cut text that may contain secrets, and join its lines.

Half of a secret cannot be recognised, nor one in which a line end became a blank. So what this process knows is masked
first (``mask_before_cutting``), and what it does not know yet is cut only between words. A word is a run without a
space; in a script that writes no spaces, each letter is a word.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final, Protocol
from weakref import WeakValueDictionary

SPARE: Final = 8_192
"""Bytes that a reader keeps beyond those it shows, so that a secret at the cut is complete, and thus masked."""
_BLANKS: Final = re.compile("(?: |\t|\r?\n)+")
_LOGIN_AND_QUERY: Final = re.compile(r"(?<=://)[^/?#]*@|[?#].*", re.DOTALL)


class Masker(Protocol):
    """Knows secrets."""

    def text(self, text: str) -> str:
        """``text`` with known secrets replaced by their placeholders."""


# Of the process, because a text comes from where nobody knows the agent: a server's pipe, a provider's library.
_MASKERS: Final[WeakValueDictionary[int, Masker]] = WeakValueDictionary()


def mask_before_cutting(masker: Masker) -> None:
    """Mask the secrets that ``masker`` knows, now or later, in all text that is cut, as long as the object exists."""
    _MASKERS[id(masker)] = masker


def _masked(text: str) -> str:
    # The references are copied at once: another thread may add one.
    for reference in _MASKERS.valuerefs():
        masker = reference()
        if masker is not None:
            text = masker.text(text)
    return text


def cut_text(text: str, most: int) -> str:
    """``text``, or as many whole words of its beginning as fit into ``most`` characters, followed by its length."""
    shown, is_cut = _beginning(text, most, most)
    return f"{shown}… ({len(text):,} characters)" if is_cut else shown


def cut_words(text: str, most: int) -> str:
    """As ``cut_text``, with an ellipsis within ``most`` instead of the length behind it."""
    shown, is_cut = _beginning(text, most, most - 1)
    return f"{shown}…" if is_cut else shown


def unwrapped(text: str) -> str:
    """``text`` in one line: one space for each run of spaces, tabs and line ends.

    Control characters stay; ``str.split`` would drop them.
    """
    return _BLANKS.sub(" ", _masked(text)).strip(" ")


def first_line(text: str) -> str:
    """The first line of ``text`` that is not blank; "" if none."""
    return _masked(text).strip().partition("\n")[0].rstrip()


def cut_address(address: str) -> str:
    """The address of a server, without its login, query and fragment; masked first, since all of it may be a secret."""
    return _LOGIN_AND_QUERY.sub("", _masked(address))


def last_words(data: bytes, most: int) -> str:
    """The whole words within the last ``most`` bytes of a program's output, as text.

    Args:
        data: ``SPARE`` bytes more than ``most`` if the output was longer.
    """
    is_cut, start = len(data) > most, 0
    # Bytes that are not UTF-8 survive, since a character may be cut at the beginning.
    data = _masked(data.decode(errors="surrogateescape")).encode(errors="surrogateescape")
    text = data[-most:].decode(errors="replace")
    if is_cut and not data[-most - 1 : -most].isspace():
        while start < len(text) and not _parts(text[start]):
            start += 1
    # `strip()` alone would drop control characters.
    return text[start:].strip(" \t\r\n")


def _beginning(text: str, most: int, room: int) -> tuple[str, bool]:
    """The masked text, and False; if it is too long, whole words of its beginning in ``room`` characters, and True."""
    masked = _masked(text)
    if max(len(text), len(masked)) <= most:
        return masked, False
    end = min(room, len(masked))
    # A text that only masking made short enough may have been cut by its reader, within its last word.
    if not _parts(masked[end : end + 1]):
        while end and not _parts(masked[end - 1]):
            end -= 1
    return masked[:end].rstrip(), True


def _parts(char: str) -> bool:
    return char.isspace() or (bool(char) and unicodedata.category(char) == "Lo")
