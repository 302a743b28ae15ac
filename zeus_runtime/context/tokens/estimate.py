"""An estimate of a text's tokens for models whose tokenizer is not public: how much it has of each class of text.

A handful of counts over the UTF-8 bytes (words by length, digits, signs, indentation, letters of other scripts, ...),
each with what it costs in tokens; the costs are fitted (``fitted.json``).
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
    "digits_beside_letters",
    "signs",
    "sign_runs",
    "lines",
    "two_byte_letters",
    "three_byte_letters",
    "four_byte_letters",
)
"""What ``features`` counts, in its order."""

_LONG: Final = 14


def _table(keep: Callable[[int], int]) -> bytes:
    return bytes(keep(byte) for byte in range(256))


def _is_letter(byte: int) -> bool:
    return 65 <= byte <= 90 or 97 <= byte <= 122


def _is_digit(byte: int) -> bool:
    return 48 <= byte <= 57


def _is_sign(byte: int) -> bool:
    return 33 <= byte <= 126 and not _is_letter(byte) and not _is_digit(byte)


def _class(byte: int) -> int:
    """The byte's class: a A 0 . blank line 2 3 4, and x for what continues a letter."""
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
    return ord("x" if byte < 192 else "2" if byte < 224 else "3" if byte < 240 else "4")


_CLASSES: Final = _table(_class)
_LETTERS: Final = _table(lambda byte: ord("a") if chr(byte) in "aA" else ord(" "))
_NUMBERS: Final = _table(lambda byte: ord("0") if chr(byte) == "0" else ord(" "))
_SIGNS: Final = _table(lambda byte: ord(".") if chr(byte) == "." else ord(" "))


def features(text: str) -> tuple[int, ...]:
    """How much ``text`` has of each of ``FEATURES``; linear in its length."""
    encoded = text.encode("utf-8", "replace")
    classes = encoded.translate(_CLASSES)
    count = classes.count
    lengths = _lengths(classes.translate(_LETTERS).split())
    short = lengths.count(1) + lengths.count(2) + lengths.count(3)
    long = (
        sum(length - _LONG for length in lengths if length > _LONG) if max(lengths, default=0) > _LONG else 0
    )
    wide = (0, 0, 0) if len(encoded) == len(text) else (count(b"2"), count(b"3"), count(b"4"))
    return (
        short,
        len(lengths) - short,
        long,
        count(b"A"),
        count(b"aA"),
        count(b"0"),
        len(classes.translate(_NUMBERS).split()),
        count(b"a0") + count(b"0a") + count(b"A0") + count(b"0A"),
        count(b"."),
        len(classes.translate(_SIGNS).split()),
        count(b"\n"),
        *wide,
    )


def _lengths(words: Sequence[bytes]) -> Sequence[int]:
    try:
        return bytes(map(len, words))
    except ValueError:
        return list(map(len, words))


def estimator(costs: Sequence[float]) -> Callable[[str], float]:
    """What estimates a text's tokens: at least 1 for any text, 0 for none.

    Args:
        costs: tokens for one of each of ``FEATURES``.
    """

    def estimate(text: str) -> float:
        return max(1.0, sum(map(float.__mul__, costs, map(float, features(text))))) if text else 0.0

    return estimate
