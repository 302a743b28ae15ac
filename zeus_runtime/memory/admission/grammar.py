"""The grammar of short statements, read from ``data/``: words by role, and what a whole text is marked as.

No list there names topics of statements. Open classes of words are recognised by their place in the sentence.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

from zeus_runtime.memory.admission.data import read
from zeus_runtime.memory.retrieval.analysis import word_tokens

_LANGUAGES: Final[dict[str, dict[str, Any]]] = {name: read(name) for name in ("en", "de", "zh")}


def _words(*roles: str) -> frozenset[str]:
    texts = [str(language.get(role, "")) for language in _LANGUAGES.values() for role in roles]
    return frozenset(" ".join(texts).split())


def _pattern(section: dict[str, Any], name: str) -> re.Pattern[str]:
    fragments = {"measures": _LANGUAGES["zh"]["measures"], **_LANGUAGES["en"]["fragments"]}
    return re.compile(
        re.sub(r"\{\{(\w+)\}\}", lambda match: fragments[match[1]], section[name]), re.IGNORECASE
    )


def _either(role: str) -> re.Pattern[str]:
    """What the pattern of any language finds."""
    sections = [language.get("patterns", {}) for language in _LANGUAGES.values()]
    return re.compile(
        "|".join(_pattern(each, role).pattern for each in sections if role in each), re.IGNORECASE
    )


COPULAS: Final = _words("auxiliaries")
PREPOSITIONS: Final = _words("prepositions")
DETERMINERS: Final = _words("determiners")
PASSED_OVER: Final = DETERMINERS | _words("still")
SUBJECTS: Final = _words("subjects")
EMPTY: Final = (COPULAS | PREPOSITIONS | PASSED_OVER | SUBJECTS | _words("fillers")) - _words("telling")
"""Words that contribute no value to a statement."""
MODALS: Final = _words("modals")
QUANTITIES: Final = MODALS | _words("quantifiers", "limits")
"""Words that say how much of something, which is not what a statement is about."""
WISHES: Final = _words("wishes")
LIMITS: Final = _words("limits")
NEGATORS: Final = _words("negators")
NAMING: Final = _words("naming")
OPPOSITES: Final = _words("opposites")
UNITS: Final = _words("units")
WAYS: Final = _words("ways")
CLASSIFIERS: Final = _words("classifiers")
BEGINS, ENDS = _words("begins"), _words("ends")
"""Words before the two ends of a time."""
BREAKS: Final = frozenset(",.;:!?。、\n")
CLAUSES: Final = BREAKS | _words("clauses")
FULL_STOPS: Final = frozenset(".!?。\n")

_SECTIONS: Final = [
    (language, name) for language in _LANGUAGES.values() for name in language.get("marks", ())
]
MARKS: Final = {
    name: [_pattern(each["marks"], name) for each, other in _SECTIONS if other == name]
    for _, name in _SECTIONS
}
"""What a text is marked as, by patterns that each language has for it: ``planned``, ``news``, ``event`` ..."""
GONE: Final = [
    _pattern({"gone": each}, "gone") for language in _LANGUAGES.values() for each in language.get("gone", ())
]
"""How a statement tells what is not so any more, or not chosen: the group ``gone``."""
FORMER: Final = _either("former")
TURNING: Final = _either("turning")
PREDICATE_ZH: Final = _either("predicate")
SUBJECT_ZH: Final = _either("subject")
LABEL_ZH: Final = _either("label")
PLACED_ZH: Final = _either("placed")
HARMLESS: Final = _either("harmless")
"""Words that hold a denying character and deny nothing."""
HELD: Final = [
    _pattern({"held": each}, "held") for language in _LANGUAGES.values() for each in language["held"]
]
"""How a statement names what somebody has one of at a time: its group's name or the group ``what``, and ``who``."""

HIRAGANA: Final = re.compile("[\u3041-\u309f]")
"""Japanese writes particles and endings with it; common ones make texts near that say different things."""
SIMPLIFIED: Final = str.maketrans(dict(_LANGUAGES["zh"]["traditional"].split()))
"""For ``str.translate``."""
SAME: Final = [
    (re.compile(each["pattern"]), each["becomes"])
    for language in _LANGUAGES.values()
    for each in language.get("phrases", ())
]
"""Phrases that mean the same, brought to one form, in this order."""
_IRREGULAR: Final = {
    form: base for base, forms in _LANGUAGES["en"]["irregular"].items() for form in forms.split()
}


@lru_cache(8_192)
def stem(word: str) -> str:
    """A word without its endings, one form of an irregular verb for all."""
    word = word.removesuffix("'s").removesuffix("'")
    word = _IRREGULAR.get(word, word)
    return (word_tokens(word, "english") or [word])[0] if word.isalpha() and len(word) > 3 else word


_SYNONYMS: Final = {
    stem(word): stem(group.split()[0]) for group in _LANGUAGES["en"]["same"] for word in group.split()
}
DENYING: Final = {
    stem(word): key_
    for word, key_ in (
        (w, o and _SYNONYMS.get(stem(o), stem(o))) for w, o in _LANGUAGES["en"]["denying"].items()
    )
}
"""Verbs that deny another one; if that is empty, they negate the words that follow."""
MANY: Final = frozenset(map(stem, _words("many")))


def key(word: str) -> str:
    """Equal for words that mean the same."""
    return _SYNONYMS.get(stem(word), stem(word))


def participle(word: str) -> bool:
    """Whether the word may be a verb's past tense or participle."""
    return word in _IRREGULAR or (word.endswith("ed") and len(word) > 4)


def in_the_past(word: str) -> bool:
    """Whether a verb is in the past tense by its form alone, and tells no change."""
    return participle(word) and _IRREGULAR.get(word) != word and not TURNING.fullmatch(word)
