"""The meaning of an English word or a token by itself."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from zeus_runtime.memory.admission.wording import (
    DENYING,
    EMPTY,
    IRREGULAR,
    NEGATORS,
    PASSED_OVER,
    SAME,
    TURNING,
    ZH_EMPTY,
    ZH_NEGATORS,
)
from zeus_runtime.memory.retrieval.fusion import CJK

BREAKS: Final = frozenset(",.;:!?。、\n")
_CLAUSE: Final = frozenset({"but", "and", "while", "whereas", "但", "而"})

_FULL_STOPS: Final = frozenset(".!?。\n")

_CHARACTER: Final = re.compile(f"[{CJK}]")
USER: Final = "用户"
"""The user, who does not count as the subject of a statement."""


@lru_cache(8_192)
def stem(word: str) -> str:
    """An English word without the endings of number, person and tense; the same for all forms of a regular word."""
    word = word.removesuffix("'s").removesuffix("'")
    word = IRREGULAR.get(word, word)
    if not (word.isascii() and word.isalpha()) or len(word) < 4:
        return word
    for ending in ("ies", "ing", "ed", "es", "s"):
        if (
            word.endswith(ending)
            and len(word) - len(ending) >= 3
            and not (ending == "s" and word.endswith(("ss", "us", "is")))
        ):
            word = word[: -len(ending)] + ("y" if ending == "ies" else "")
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "lsaeo":
        word = word[:-1]
    return word[:-1] if word.endswith("e") and len(word) > 3 else word


_SAME_STEMS: Final = {stem(word): stem(same) for word, same in SAME.items()}
_DENYING_STEMS: Final = {
    stem(word): other and stem(SAME.get(other, other)) for word, other in DENYING.items()
}


class Form(NamedTuple):
    """The meaning of a token by itself.

    Args:
        key: of the word.
        denied: the verb that it negates; "" if it negates the following words, None if it is not a negating verb.
        denies: it is a negator.
        empty: it carries nothing.
        turns: it tells a change.
        inside: it has a capital or a digit inside.
        upper: it begins with a capital.
        passed: it is skipped between a word and the word that it belongs to.
        parts: a clause ends with it.
        ends: a sentence ends with it.
        character: it is a Chinese one.
        simple: it neither denies nor turns nor parts anything.
    """

    key: str
    denied: str | None
    denies: bool
    empty: bool
    turns: bool
    inside: bool
    upper: bool
    passed: bool
    parts: bool
    ends: bool
    character: bool
    simple: bool


@lru_cache(8_192)
def form_of(raw: str) -> Form:
    low, inside = raw.lower(), raw[1:]
    key = stem(low)
    denied, upper = _DENYING_STEMS.get(key), raw[0].isupper()
    denies = low in NEGATORS or low.endswith("n't") or low in ZH_NEGATORS
    character = not raw.isascii() and _CHARACTER.match(raw) is not None
    turns, parts = turning(low), low in BREAKS or low in _CLAUSE
    return Form(
        key=_SAME_STEMS.get(key, key),
        denied=denied,
        denies=denies,
        empty=low in EMPTY or low in ZH_EMPTY or low in BREAKS,
        turns=turns,
        inside=inside != inside.lower() or any(each.isdigit() for each in inside),
        upper=upper,
        passed=low in PASSED_OVER,
        parts=parts,
        ends=low in _FULL_STOPS,
        character=character,
        simple=(raw.isascii() or (character and raw not in USER))
        and not (denied is not None or denies or turns or parts or (upper and len(raw) == 1)),
    )


@lru_cache(8_192)
def turning(low: str) -> bool:
    return TURNING.fullmatch(low) is not None
