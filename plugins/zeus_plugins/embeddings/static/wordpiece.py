"""Splits a text into WordPiece pieces of BERT's uncased vocabulary, and the words that the vocabulary does not have.

For Latin script the pieces equal those of the reference implementation, which need not be loaded. Words in other
scripts, for which an English vocabulary has only single letters, are returned whole.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import cache
from typing import Final, NamedTuple

_ASCII: Final = re.compile(r"[a-z0-9]+|[!-/:-@\[-`{-~]")
_CONTROLS: Final = {code: None for code in (*range(32), 127) if chr(code) not in "\t\n\r"}
_LONGEST_WORD: Final = 100
"""In characters; longer words count as unknown (Devlin et al., BERT)."""
_OTHER_SCRIPTS: Final = "\u0370"
_JOINED: Final = (("\u3040", "\u30ff"), ("\uac00", "\ud7a3"), ("\uff66", "\uff9f"))
"""Kana and Hangul: written without spaces or with endings, so they are split into characters like ideographs."""
_IDEOGRAPHS: Final = (
    ("\u3400", "\u4dbf"),
    ("\u4e00", "\u9fff"),
    ("\uf900", "\ufaff"),
    ("\U00020000", "\U0003ffff"),
)


class Pieces(NamedTuple):
    """The pieces of a text.

    Args:
        known: indexes into the vocabulary, in the order of the text.
        unknown: words that are not in the vocabulary, in order; a run of ideographs is one word.
    """

    known: list[int]
    unknown: list[str]


class WordPiece:
    """Splits texts with a vocabulary.

    Args:
        vocabulary: piece to index; a piece that continues a word begins with ``##``.
    """

    def __init__(self, vocabulary: Mapping[str, int]) -> None:
        self._vocabulary = vocabulary
        self._words: dict[str, tuple[int, ...] | None] = {}

    def pieces(self, text: str) -> Pieces:
        known: list[int] = []
        unknown: list[str] = []
        for word in _words(text):
            places = self._places(word)
            if places is None:
                unknown.append(word)
            else:
                known += places
        return Pieces(known, unknown)

    def _places(self, word: str) -> tuple[int, ...] | None:
        found = self._words.get(word, ())
        if found == ():
            found = self._split(word)
            if len(self._words) >= _REMEMBERED:
                self._words.clear()
            self._words[word] = found
        return found

    def _split(self, word: str) -> tuple[int, ...] | None:
        """Take the longest matching piece repeatedly, from the left; None if no piece matches."""
        if len(word) > _LONGEST_WORD or any(other_script(each) for each in word):
            return None
        vocabulary, places, start = self._vocabulary, [], 0
        while start < len(word):
            prefix = "##" if start else ""
            for end in range(len(word), start, -1):
                place = vocabulary.get(prefix + word[start:end])
                if place is not None:
                    places.append(place)
                    start = end
                    break
            else:
                return None
        return tuple(places)


_REMEMBERED: Final = 20_000


def _words(text: str) -> list[str]:
    """Convert to lower case without accents; split at spaces and around each punctuation mark."""
    if text.isascii():
        return _ASCII.findall(text.lower().translate(_CONTROLS))
    flat = "".join(each for each in unicodedata.normalize("NFD", text) if unicodedata.category(each) != "Mn")
    words: list[str] = []
    open_kind = "space"
    for each in unicodedata.normalize("NFC", flat.lower()):
        kind = _kind(each)
        if kind == "none":
            continue
        if kind == "mark":
            words.append(each)
        elif kind != "space":
            if kind == open_kind:
                words[-1] += each
            else:
                words.append(each)
        open_kind = kind
    return words


@cache
def _kind(character: str) -> str:
    if character in "\t\n\r":
        return "space"
    category = unicodedata.category(character)
    if category[0] == "Z":
        return "space"
    if category[0] == "C" or character == "\ufffd":
        return "none"
    if category[0] == "P" or (character.isascii() and not character.isalnum()):
        return "mark"
    return "ideographs" if ideographic(character) else "word"


@cache
def other_script(character: str) -> bool:
    """Whether ``character`` is a letter from the Greek block of Unicode or later, so not English."""
    return character >= _OTHER_SCRIPTS and character.isalpha()


@cache
def ideographic(character: str) -> bool:
    """Whether ``character`` belongs to a script that does not separate words with spaces."""
    return any(low <= character <= high for low, high in (*_IDEOGRAPHS, *_JOINED))
