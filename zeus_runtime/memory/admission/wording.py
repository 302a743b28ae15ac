"""The grammar of short statements in English, German and Chinese, read from ``data/``.

No list there names topics of statements. Open classes of words are recognised by their place in the sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from zeus_runtime.memory.admission.data import read


class Telling(NamedTuple):
    """A pattern of words with a meaning.

    Args:
        signs: texts in lower case; a text (``lowered``) that contains none of them cannot match the pattern.
        pattern: the pattern.
    """

    signs: tuple[str, ...]
    pattern: re.Pattern[str]

    def matches(self, text: str, low: str) -> Iterator[re.Match[str]]:
        """Where ``text``, which is ``low`` in lower case, tells it."""
        return self.pattern.finditer(text) if any(map(low.__contains__, self.signs)) else iter(())


_EN: Final = read("en")
_DE: Final = read("de")
_ZH: Final = read("zh")


def _words(role: str, *, zh: bool = False) -> frozenset[str]:
    return frozenset(f"{_EN[role]} {_DE.get(role, '')} {_ZH[role] if zh else ''}".split())


def _zh(role: str) -> re.Pattern[str]:
    return re.compile(_ZH[role].replace("{{measures}}", ZH_MEASURES))


ZH_MEASURES: Final[str] = _ZH["measures"]
"""Chinese measure words and units, as the inside of a character class."""
SIMPLIFIED: Final = str.maketrans(dict(_ZH["traditional"].split()))
"""For ``str.translate``; each character stays one, so that places in the text do not move."""

COPULAS: Final = _words("auxiliaries")
PREPOSITIONS: Final = _words("prepositions")
DETERMINERS: Final = _words("determiners")
PASSED_OVER: Final = DETERMINERS | _words("still")
SUBJECTS: Final = _words("subjects")
EMPTY: Final = (COPULAS | PREPOSITIONS | PASSED_OVER | SUBJECTS | _words("fillers")) - _words("telling")
"""English words that contribute no value to a statement."""
LIMITS: Final = _words("limits")
MODALS: Final = _words("modals", zh=True)
QUANTIFIERS: Final = LIMITS | MODALS | _words("quantifiers", zh=True)
"""Words that say how much of something, which is not what a statement is about."""
NEGATORS: Final = _words("negators")
DENYING: Final[dict[str, str]] = _EN["denying"]
SAME: Final = {word: group.split()[0] for group in _EN["same"] for word in group.split()}
MANY: Final = _words("many")
UNITS: Final = {unit: kind for kind, units in _EN["units"].items() for unit in units.split()}
SUFFIXES: Final = _words("suffixes") | {""}
OPPOSITES: Final = _words("opposites")
IRREGULAR: Final = {form: base for base, forms in _EN["irregular"].items() for form in forms.split()}
NAMING: Final = _words("naming")
TITLES: Final = re.compile(_EN["titles"])
TURNING: Final = re.compile(_EN["turning"])

POINT: Final = re.compile(r"(?<=\d)\.(?=\d)")
"""The point of "2.5", which ends nothing."""


def _telling(signs: list[str], pattern: str) -> Telling:
    for name, fragment in {"turning": TURNING.pattern, **_EN["fragments"]}.items():
        pattern = pattern.replace(f"{{{{{name}}}}}", fragment)
    return Telling(tuple(signs), re.compile(pattern, re.IGNORECASE))


GONE: Final = tuple(_telling(**each) for each in (*_EN["gone"], *_ZH["gone"]))
"""How a statement tells what is not so any more, or not chosen."""
FORMER: Final = _telling(_EN["former_signs"] + _ZH["former_signs"], f"{_EN['former']}|{_ZH['former']}")
"""Patterns that say that something is no longer true."""
TOLD: Final = tuple(sorted({sign for telling in (*GONE, FORMER) for sign in telling.signs}))
"""A text in lower case that contains none of these says nothing about something being no longer true."""

ZH_SAME: Final = tuple((re.compile(each["pattern"]), each["becomes"]) for each in _ZH["same"])
ZH_EMPTY: Final = frozenset(_ZH["empty"])
ZH_NEGATORS: Final = frozenset(_ZH["negators"])
ZH_NOW: Final = _zh("now")
ZH_LIMITS: Final = _zh("limits")
ZH_COMPOUND: Final = _zh("compounds")
ZH_SUBJECTS: Final = _zh("subjects")
ZH_PREDICATE: Final = _zh("predicates")
ZH_PLACED: Final = _zh("placed")
ZH_MANY: Final = _zh("many")
ZH_EVENT: Final = _zh("event")
ZH_LABEL: Final = _zh("label")
ZH_NUMBERED: Final = _zh("numbered")
