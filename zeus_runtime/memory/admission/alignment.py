"""Words of two statements that are the same in other forms: their endings, or a date that says less."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from zeus_runtime.memory.admission.statement import Statement, Word
from zeus_runtime.memory.admission.values import Value, agree
from zeus_runtime.memory.admission.wording import SUFFIXES


def aligned(ours: Statement, theirs: Statement) -> tuple[Statement, Statement]:
    """``ours`` with the keys of ``theirs`` wherever a word or value of both is the same in another form."""
    there = {word.key: word for word in theirs.words}
    shared = there.keys() & {word.key for word in ours.words}
    alike: dict[str, list[Word]] = {}
    for word in there.values():
        if word.key not in shared and (start := _start(word)):
            alike.setdefault(start, []).append(word)
    if not alike:
        return ours, theirs
    words = [
        word if word.key in shared else _renamed(word, alike.get(_start(word), ())) for word in ours.words
    ]
    return ours._replace(words=tuple(words)), theirs


LEAST: Final = 4
"""Letters that two forms of a word have in common."""


def _start(word: Word) -> str:
    """Return a key that is equal for words that may be forms of one word; empty for words without other forms."""
    if word.value:
        return f"{word.value.kind} "
    return word.key[:LEAST] if word.kind != "character" and word.key.isalpha() else ""


def _renamed(word: Word, others: Iterable[Word]) -> Word:
    for other in others:
        if word.value and other.value:
            same = _says_no_more(word.value, other.value)
        else:
            same = "word" in (word.kind, other.kind) and _one_word(word.key, other.key)
        if same:
            return word._replace(key=other.key)
    return word


def _says_no_more(new: Value, old: Value) -> bool:
    """Whether the values agree, and the new date is not more exact than the old one."""
    exacter = new.kind == "date" and any(
        a != b == "*" for a, b in zip(new.text.split("-"), old.text.split("-"), strict=True)
    )
    return agree(new, old) and not exacter


def _one_word(one: str, other: str) -> bool:
    shared = next(
        (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
    return shared >= LEAST and one[shared:] in SUFFIXES and other[shared:] in SUFFIXES
