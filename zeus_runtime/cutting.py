"""Cut text that may contain secrets, and join its lines.

Half of a secret cannot be recognised, nor one in which a line end became a blank. So what this process knows is masked
first (``mask_before_cutting``), and what it does not know yet is cut only between words. A word is a run without a
space; in a script that writes no spaces, each letter is a word.

A reader that keeps a part of a long text tears a secret too, at the other end. So it keeps ``spare()`` bytes more than
it shows, and where the shown part is, is decided before masking: masking makes text shorter, and would move the torn
half into it.
"""

from __future__ import annotations

import re
import unicodedata
from codecs import getincrementaldecoder
from collections.abc import Iterator
from typing import Final, Protocol
from weakref import WeakValueDictionary

_LEAST_SPARE: Final = 8_192
_BLANKS: Final = re.compile("(?: |\t|\r?\n)+")
_SIGN: Final = re.compile(r"… \(([0-9]{1,3}(?:,[0-9]{3})*) characters\)")
_LOGIN_AND_QUERY: Final = re.compile(r"(?<=://)[^/?#]*@|[?#].*", re.DOTALL)


class Masker(Protocol):
    """Knows secrets."""

    @property
    def most_open(self) -> int:
        """More bytes than one of them takes, however it is written."""

    def text(self, text: str) -> str:
        """``text`` with known secrets replaced by their placeholders."""

    def parted(self, text: str, start: int, end: int) -> tuple[str, str, str]:
        """``text``, as in the method ``text``, before, within and after a part, which is widened to whole secrets."""


# Of the process, because a text comes from where nobody knows the agent: a server's pipe, a provider's library.
_MASKERS: Final[WeakValueDictionary[int, Masker]] = WeakValueDictionary()


def mask_before_cutting(masker: Masker) -> None:
    """Mask the secrets that ``masker`` knows, now or later, in all text that is cut, as long as the object exists."""
    _MASKERS[id(masker)] = masker


def _maskers() -> Iterator[Masker]:
    # The references are copied at once: another thread may add one.
    for reference in _MASKERS.valuerefs():
        masker = reference()
        if masker is not None:
            yield masker


def mask_known(text: str) -> str:
    """``text`` with all secrets replaced that this process knows."""
    for masker in _maskers():
        text = masker.text(text)
    return text


def _masked_part(text: str, start: int, end: int) -> tuple[str, int, int]:
    """The masked text, and where a part of ``text`` is in it; a secret at its border is in the part as a whole."""
    for masker in _maskers():
        before, part, after = masker.parted(text, start, end)
        text, start, end = before + part + after, len(before), len(before) + len(part)
    return text, start, end


def spare() -> int:
    """Bytes that a reader keeps beyond those it shows: of a secret that it tears, the half is among them."""
    return max(_LEAST_SPARE, *(masker.most_open for masker in _maskers()), 0)


def cut_text(text: str, most: int) -> str:
    """``text``, or as many whole words of its beginning as fit into ``most`` characters, followed by its length."""
    shown, is_cut = _beginning(text, most, most)
    return f"{shown}… ({len(text):,} characters)" if is_cut else shown


def cut_again(text: str, most: int) -> str:
    """As ``cut_text``, of a text that it may have cut before: the length stays that of the whole."""
    former = cut_before(text)
    if len(text) <= most or former is None:
        return cut_text(text, most)
    beginning, length = former
    return f"{_beginning(beginning, most, most)[0]}… ({length:,} characters)"


def cut_before(text: str) -> tuple[str, int] | None:
    """The part of a text before the sign of ``cut_text``, and the length that it says; None without a sign.

    Only for a text that ``cut_text`` made, such as a session's title: any other may have such a sign of its own.
    """
    signs = list(_SIGN.finditer(text))
    return (text[: signs[-1].start()], int(signs[-1][1].replace(",", ""))) if signs else None


def cut_words(text: str, most: int) -> str:
    """As ``cut_text``, with an ellipsis within ``most`` instead of the length behind it."""
    shown, is_cut = _beginning(text, most, most - 1)
    return f"{shown}…" if is_cut else shown


def unwrapped(text: str) -> str:
    """``text`` in one line: one space for each run of spaces, tabs and line ends.

    Control characters stay; ``str.split`` would drop them.
    """
    return _BLANKS.sub(" ", mask_known(text)).strip(" ")


def first_line(text: str) -> str:
    """The first line of ``text`` that is not blank; "" if none."""
    return mask_known(text).strip().partition("\n")[0].rstrip()


def cut_address(address: str) -> str:
    """The address of a server, without its login, query and fragment; masked first, since all of it may be a secret."""
    return _LOGIN_AND_QUERY.sub("", mask_known(address))


def last_words(data: bytes, most: int) -> str:
    """The whole words within the last ``most`` bytes of a program's output, as text.

    Args:
        data: ``spare()`` bytes more than ``most`` if the output was longer.
    """
    # Bytes that are not UTF-8 survive, since a character may be cut at the beginning.
    text = data.decode(errors="surrogateescape")
    masked, start, _ = _masked_part(text, _before_last(data, most), len(text))
    # Masking makes text longer too.
    start = max(start, _before_last(masked.encode(errors="surrogateescape"), most))
    if start and not masked[start - 1].isspace():
        while start < len(masked) and not _parts(masked[start]):
            start += 1
    shown = masked[start:].encode(errors="surrogateescape").decode(errors="replace")
    # `strip()` alone would drop control characters.
    return shown.strip(" \t\r\n")


def _before_last(data: bytes, most: int) -> int:
    """How many characters begin before the last ``most`` bytes."""
    decoder = getincrementaldecoder("utf-8")("surrogateescape")
    return len(decoder.decode(data[:-most])) + bool(decoder.getstate()[0])


def _beginning(text: str, most: int, room: int) -> tuple[str, bool]:
    """The masked text, and False; if it is too long, whole words of its beginning in ``room`` characters, and True."""
    masked, _, end = _masked_part(text, 0, min(room, len(text)))
    if max(len(text), len(masked)) <= most:
        return masked, False
    end = min(end, room)
    if end < len(masked) and not _parts(masked[end]):
        while end and not _parts(masked[end - 1]):
            end -= 1
    return masked[:end].rstrip(), True


def _parts(char: str) -> bool:
    return char.isspace() or unicodedata.category(char) == "Lo"
