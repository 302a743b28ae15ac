"""The grammar of short statements, read from ``data/``: words by role, and the marks of a whole text.

No list there names topics of statements. Open classes of words are recognised by their place in the sentence.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from zeus_runtime.memory.data_files import read
from zeus_runtime.memory.retrieval.analysis import word_tokens

_LANGUAGES: Final[list[dict[str, Any]]] = [
    read(f"admission/data/{name}") for name in ("en", "de", "zh", "layout")
]
_EN, _, _ZH, _ = _LANGUAGES
_FRAGMENTS: Final = {"measures": _ZH["measures"], **_EN["fragments"]}


def _words(*roles: str) -> frozenset[str]:
    return frozenset(" ".join(language.get(role, "") for language in _LANGUAGES for role in roles).split())


class WordPatterns(NamedTuple):
    """The patterns for a role.

    Args:
        every: of all languages.
        latin: those that a text of ASCII alone may have.
    """

    every: Sequence[re.Pattern[str]]
    latin: Sequence[re.Pattern[str]]

    def of(self, text: str) -> Sequence[re.Pattern[str]]:
        """Those to look for in ``text``; for an English text they are half as many."""
        return self.latin if text.isascii() else self.every


def _patterns(role: str) -> WordPatterns:
    every, latin = [], []
    for language in _LANGUAGES:
        for each in language["patterns"].get(role, ()):
            filled = re.sub(r"\{\{(\w+)\}\}", lambda match: _FRAGMENTS[match[1]], each)
            every.append(re.compile(filled, re.IGNORECASE))
            if language is not _ZH:
                latin.append(every[-1])
    return WordPatterns(every, latin)


def _either(role: str) -> re.Pattern[str]:
    return re.compile("|".join(each.pattern for each in _patterns(role).every), re.IGNORECASE)


COPULAS: Final = _words("auxiliaries")
PREPOSITIONS: Final = _words("prepositions")
DETERMINERS: Final = _words("determiners")
PASSED_OVER: Final = DETERMINERS | _words("still")
SUBJECTS: Final = _words("subjects")
POINTING: Final = _words("pointing")
"""Subjects that point to what another text said."""
EMPTY: Final = (COPULAS | PREPOSITIONS | PASSED_OVER | SUBJECTS | _words("fillers")) - _words("telling")
"""Words that contribute no value to a statement."""
HEADS: Final = COPULAS | PREPOSITIONS | _words("naming")
"""Words behind which stands a value of what is said before them."""
OPENERS: Final = PREPOSITIONS | _words("limits")
"""Words that may begin what comes before the subject, up to a comma."""
NEGATORS: Final = _words("negators")
OPPOSITES: Final = _words("opposites")
IS, WERE, TO, WAYS = (_words(role) for role in ("is", "were", "to", "ways"))
CLASSIFIERS: Final = _words("classifiers")
BEGINS, ENDS = _words("begins"), _words("ends")
"""Words before the two ends of a time."""
FULL_STOPS: Final = frozenset(".!?。\n")
BREAKS: Final = FULL_STOPS | frozenset(",;:、")
PARTING: Final = FULL_STOPS | _words("clauses") | {";"}
"""Behind these stands a clause of its own; behind a comma or "and" may stand another entry of a list."""
CLAUSES: Final = BREAKS | PARTING | _words("joining")

MARKS: Final = {
    role: _patterns(role) for role in dict.fromkeys(r for each in _LANGUAGES for r in each["marks"].split())
}
"""What a whole text is marked as, by the patterns of these names: ``planned``, ``news``, ``event`` ..."""
GONE: Final = _patterns("gone")
"""How a statement tells what is not so any more, or not chosen: the group ``gone``."""
HELD: Final = _patterns("held")
"""How a statement names what somebody has one of at a time: its group's name or the group ``what``, and ``who``."""
FORMER, TURNING, HARMLESS = _either("former"), _either("turning"), _either("harmless")
TITLE_STOP: Final = _either("title_stop")
PREDICATE_ZH, SUBJECT_ZH, LABEL_ZH = _either("predicate"), _either("subject"), _either("label")
SIMPLIFIED: Final = str.maketrans(dict(_ZH["traditional"].split()))
_PHRASES, _LATIN_PHRASES = (
    [
        (re.compile(each["pattern"]), each["becomes"])
        for language in languages
        for each in language.get("phrases", ())
    ]
    for languages in (_LANGUAGES, [each for each in _LANGUAGES if each is not _ZH])
)
_IRREGULAR: Final = {form: base for base, forms in _EN["irregular"].items() for form in forms.split()}


def in_one_form(text: str) -> str:
    """The text with phrases that mean the same brought to one form."""
    for pattern, form in _LATIN_PHRASES if text.isascii() else _PHRASES:
        text = pattern.sub(form, text)
    return text


@lru_cache(8_192)
def stem(word: str) -> str:
    """A word without its endings, one form of an irregular verb for all."""
    word = word.removesuffix("'s").removesuffix("'")
    word = _IRREGULAR.get(word, word)
    return (word_tokens(word, "english") or [word])[0] if word.isalpha() and len(word) > 3 else word


_SYNONYMS: Final = {stem(word): stem(group.split()[0]) for group in _EN["same"] for word in group.split()}


def key(word: str) -> str:
    """Equal for words that mean the same; a name with capitals inside, such as ``userId``, keeps them."""
    low = word.lower()
    mixed = word[1:] != word[1:].lower() and word != word.upper()
    return _SYNONYMS.get(stem(low), word if mixed else stem(low))


DENYING: Final = {stem(word): key(other) for word, other in _EN["denying"].items()}
"""Verbs that deny another one; if that is empty, they negate the words that follow."""
MANY: Final = frozenset(map(stem, _words("many")))
"""Verbs with which one thing does not exclude another."""
MODALS, WISHES, UNITS = (frozenset(map(key, _words(role))) for role in ("modals", "wishes", "units"))
SIGNS: Final = _words("signs")
"""Of currencies and units, before or behind a number."""
QUANTITIES: Final = MODALS | frozenset(map(key, _words("quantifiers", "limits")))
"""Words that say how much of something, which is not what a statement is about."""


def participle(word: str) -> bool:
    """Whether the word may be a verb's past tense or participle."""
    return word in _IRREGULAR or (word.endswith("ed") and len(word) > 4)


def in_the_past(word: str) -> bool:
    """Whether a verb is in the past tense by its form alone, and tells no change."""
    # "put" and "cut" are their own past forms: the form alone tells nothing.
    return participle(word) and _IRREGULAR.get(word) != word and not TURNING.fullmatch(word)
