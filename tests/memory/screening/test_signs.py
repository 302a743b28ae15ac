"""What spares a rule its pattern: no match is without one of the rule's signs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import product
from re import _parser  # type: ignore[attr-defined]
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zeus_runtime.memory.normalise import lowered
from zeus_runtime.memory.screening import sensitive
from zeus_runtime.memory.screening.sensitive import NamedPattern

RULES = sensitive.secrets() + sensitive.injections()
GAP = "\0"
FEW = 64
MANY = 4_096


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: "|".join(rule.signs)[:30])
def test_every_match_of_a_pattern_has_one_of_its_signs(rule: NamedPattern) -> None:
    parsed = _parser.parse(rule.pattern.pattern, rule.pattern.flags)
    assert certain(list(parsed), rule.signs)


def certain(sequence: Sequence[Any], signs: Sequence[str]) -> bool:
    """Whether whatever the parsed pattern matches has a sign, in lower case."""
    if any(certain_of(part, signs) for part in sequence):
        return True
    texts = [spelt(part) for part in sequence]
    return any(all_have(texts[start:], signs) for start in range(len(texts)))


def all_have(texts: Sequence[Sequence[str]], signs: Sequence[str]) -> bool:
    """Whether all that can stand at the beginning of these has a sign."""
    found = [""]
    for choices in texts:
        found = ["".join(each) for each in product(found, choices)]
        if all(any(sign in text for sign in signs) for text in found):
            return True
        if len(found) > MANY:
            return False
    return False


def certain_of(part: tuple[Any, Any], signs: Sequence[str]) -> bool:
    match str(part[0]), part[1]:
        case "SUBPATTERN", (*_, inside):
            return certain(list(inside), signs)
        case "BRANCH", (_, branches):
            return all(certain(list(branch), signs) for branch in branches)
        case (("MAX_REPEAT" | "MIN_REPEAT"), (least, _, inside)):
            return least > 0 and certain(list(inside), signs)
    return False


def spelt(part: tuple[Any, Any]) -> list[str]:
    """All that a part can stand for, in lower case; a gap for what cannot be listed."""
    match str(part[0]), part[1]:
        case "LITERAL", code:
            return [chr(code).lower()]
        case "IN", members if all(str(kind) in ("LITERAL", "RANGE") for kind, _ in members):
            spans = [(said, said) if str(kind) == "LITERAL" else said for kind, said in members]
            return few(chr(code).lower() for low, high in spans for code in range(low, high + 1))
        case (("AT" | "ASSERT" | "ASSERT_NOT"), _):
            return [""]
        case "SUBPATTERN", (*_, inside):
            return joined(inside)
        case "BRANCH", (_, branches):
            return few(text for branch in branches for text in joined(branch))
        case (("MAX_REPEAT" | "MIN_REPEAT"), (0, 1, inside)):
            return few(["", *joined(inside)])
    return [GAP]


def joined(sequence: Iterable[Any]) -> list[str]:
    found = [""]
    for part in sequence:
        found = few("".join(each) for each in product(found, spelt(part)))
    return found


def few(texts: Iterable[str]) -> list[str]:
    listed = list(texts)
    return listed if len(listed) <= FEW else [GAP]


@settings(deadline=None)
@given(st.text("iİıIsSſkKK abc_-", max_size=20))
def test_a_text_in_lower_case_has_the_letters_that_a_pattern_of_either_case_finds(text: str) -> None:
    for sign in "isk":
        if re.search(sign, text, re.IGNORECASE):
            assert sign in lowered(text)
