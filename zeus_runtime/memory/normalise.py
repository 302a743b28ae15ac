"""The form in which texts are stored and compared: texts that look the same are equal, without invisible characters."""

from __future__ import annotations

import re
import unicodedata
from functools import cache, lru_cache
from typing import Final

from zeus_runtime.escaping import IGNORABLE, is_unseen

# Control characters by their category, but they part words: they become a space or a line end.
_VISIBLE_SPACE: Final = "\t\n\r\v\f\x1c\x1d\x1e\x1f\x85"
# A blank of Braille is drawn as nothing too, although it counts as a sign.
_BRAILLE_BLANK: Final = "\u2800"
_IGNORABLE: Final = re.compile(IGNORABLE)
_LINE_END = re.compile("\r\n|[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
# What is one space, or a line end without spaces beside it, is left alone: most are, and a replacement takes time.
_BLANK = re.compile(r"[^\S\n]{2,}|[^\S\n ]")
_EDGE = re.compile(r" \n ?|\n ")
_LINES = re.compile(r"\n{3,}")
_WORD = re.compile(r"\w+")
_END: Final = " .!。…;,、؟"


def normalise(text: str) -> str:
    """``text`` in Unicode NFKC, without invisible characters, with single spaces and at most one empty line.

    Zero-width characters, direction marks, variation selectors and the invisible tag characters can hide instructions
    from a reader. They can also split a secret into parts that no pattern matches. They are removed, as are control
    characters and lone surrogates. Line breaks stay. ``normalise(normalise(text)) == normalise(text)``.
    """
    if text.isascii() and text.isprintable() and "  " not in text and text == text.strip():
        return text
    for _ in range(4):
        once = _once(text)
        if once == text:
            break
        text = once
    return text


def _once(text: str) -> str:
    if not text.isascii():
        text = unicodedata.normalize("NFKC", _seen(text))
    elif not text.isprintable():
        text = _seen(text)
    text = _BLANK.sub(" ", _LINE_END.sub("\n", text))
    return _LINES.sub("\n\n", _EDGE.sub("\n", text)).strip()


def _seen(text: str) -> str:
    """``text`` without what cannot be seen; each of its characters is judged once."""
    unseen = {ord(each): None for each in set(text) if _unseen(each)}
    return text.translate(unseen) if unseen else text


@cache
def _unseen(character: str) -> bool:
    if character in _VISIBLE_SPACE:
        return False
    if character == _BRAILLE_BLANK or _IGNORABLE.match(character):
        return True
    # What this version of Unicode does not know, such as a new emoji, and private signs have a form in some font.
    return is_unseen(character) and unicodedata.category(character) not in ("Cn", "Co", "Zl", "Zp")


def inked(text: str) -> str:
    """``text`` without any character that may show nothing, also those that ``normalise`` keeps."""
    if text.isprintable() and text.isascii():
        return text
    return text.translate({ord(each): None for each in set(text) if is_unseen(each)})


def lowered(text: str) -> str:
    """``text`` in lower case as a pattern that ignores case sees it: the Turkish i are an i, the long s is an s."""
    if not text.isascii():
        text = text.replace("\u0130", "i").replace("\u0131", "i").replace("\u017f", "s")
    return text.lower()


def duplicate_key(text: str) -> str:
    """Equal for texts that differ in nothing but case, spacing and closing punctuation.

    Names with capitals inside (``userId``, ``userID``) keep their case, which is part of what they say.
    """
    flat = " ".join(normalise(text).split()).strip(_END)
    return _WORD.sub(lambda word: _folded(word[0]), flat)


_key: Final = lru_cache(1_024)(duplicate_key)


def same_words(one: str, other: str) -> bool:
    """Whether the texts differ in nothing that ``duplicate_key`` looks at."""
    return _key(one) == _key(other)


def _folded(word: str) -> str:
    inside = word[1:]
    mixed = inside != inside.lower() and word != word.upper()
    return word if mixed else word.casefold()
