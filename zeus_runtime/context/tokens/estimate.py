"""Estimate a text's tokens for models without a public tokenizer, by how much it has of each class of text.

It takes a handful of counts over the UTF-8 bytes (words by length, digits, signs, indentation, letters of other
scripts, ...) and a cost in tokens for each; the costs are fitted (``fitted.json``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

FEATURES: Final = (
    "short_words",
    "words",
    "letters_beyond_14",
    "capitals",
    "camel_humps",
    "digits",
    "numbers",
    "signs",
    "sign_runs",
    "signs_after_blanks",
    "words_after_signs",
    "lines",
    "accented_letters",
    "two_byte_letters",
    "right_to_left_letters",
    "ideographs",
    "hangul",
    "three_byte_letters",
    "four_byte_letters",
)
"""The quantities that ``features`` counts, in its order."""

_LONG: Final = 14


def _table(keep: Callable[[int], int]) -> bytes:
    return bytes(keep(byte) for byte in range(256))


def _is_letter(byte: int) -> bool:
    return 65 <= byte <= 90 or 97 <= byte <= 122


def _is_digit(byte: int) -> bool:
    return 48 <= byte <= 57


def _is_sign(byte: int) -> bool:
    return 33 <= byte <= 126 and not _is_letter(byte) and not _is_digit(byte)


_LEADS: Final = (
    ("x", 0xBF), ("l", 0xCB), ("2", 0xD5), ("r", 0xDF), ("3", 0xE2), ("c", 0xE9), ("k", 0xED), ("3", 0xEF), ("4", 0xFF),
)  # fmt: skip
"""Class of a non-ASCII byte by its upper bound: a continuation byte, or the first byte of an accented Latin letter,
another two-byte letter (Greek, Cyrillic), a letter of a right-to-left script, an ideograph (with kana), a hangul
syllable, another three-byte letter or sign, or a four-byte one."""


def _class(byte: int) -> int:
    """The byte's class: ``a A 0 .``, blank, line, or one of ``_LEADS``."""
    if _is_letter(byte):
        return ord("a") if byte >= 97 else ord("A")
    if _is_digit(byte):
        return ord("0")
    if _is_sign(byte):
        return ord(".")
    if byte in (10, 13):
        return ord("\n")
    if byte < 128:
        return ord(" ")
    return next(ord(name) for name, last in _LEADS if byte <= last)


_CLASSES: Final = _table(_class)
_LETTERS: Final = _table(lambda byte: ord("a") if chr(byte) in "aA" else ord(" "))
_NUMBERS: Final = _table(lambda byte: ord("0") if chr(byte) == "0" else ord(" "))
_SIGNS: Final = _table(lambda byte: ord(".") if chr(byte) == "." else ord(" "))


def features(text: str) -> tuple[int, ...]:
    """How much ``text`` has of each of ``FEATURES``; linear in its length."""
    # A lone surrogate, which UTF-8 cannot encode, counts as the sign "?".
    encoded = text.encode("utf-8", "replace")
    classes = encoded.translate(_CLASSES)
    count = classes.count
    lengths = _lengths(classes.translate(_LETTERS).split())
    short = lengths.count(1) + lengths.count(2) + lengths.count(3)
    long = [length for length in lengths if length > _LONG]
    wide = (0,) * len(_WIDE) if len(encoded) == len(text) else map(count, _WIDE)
    return (
        short,
        len(lengths) - short,
        sum(long) - _LONG * len(long),
        count(b"A"),
        count(b"aA"),
        count(b"0"),
        len(classes.translate(_NUMBERS).split()),
        count(b"."),
        len(classes.translate(_SIGNS).split()),
        count(b" ."),
        count(b".a") + count(b".A"),
        count(b"\n"),
        *wide,
    )


_WIDE: Final = (b"l", b"2", b"r", b"c", b"k", b"3", b"4")


def _lengths(words: Sequence[bytes]) -> Sequence[int]:
    try:
        # Bytes are counted much faster than a list; a word of more than 255 letters does not fit into them.
        return bytes(map(len, words))
    except ValueError:
        return list(map(len, words))


def estimator(costs: Sequence[float]) -> Callable[[str], float]:
    """A function that estimates a text's tokens: at least 1 for any text, 0 for an empty one.

    Args:
        costs: tokens for one of each of ``FEATURES``.
    """

    def estimate(text: str) -> float:
        return max(1.0, sum(map(float.__mul__, costs, map(float, features(text))))) if text else 0.0

    return estimate
