"""Things that a person has once at a time, such as a home: another name is a change, also if a model finds it far."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, TypeAlias

from zeus_runtime.memory.admission.data import read
from zeus_runtime.memory.admission.wording import DETERMINERS, PASSED_OVER, SIMPLIFIED, SUBJECTS

Held: TypeAlias = tuple[str, str]
"""Who has it, empty for the user, and what."""


@lru_cache(64)
def held_once(text: str) -> Held | None:
    """Return the thing in a statement that a person has only one of at a time, such as an employer; else None.

    The statement must hold at all times, and after a verb a name must follow: "works at Google", not "works at night".
    """
    if not text.isascii() and (chinese := _ZH.fullmatch(text.translate(SIMPLIFIED))):
        return _ZH_NOBODY.sub("", chinese["who"]).removesuffix("的"), chinese["what"] or str(
            chinese.lastgroup
        )
    match = _PROPERTY.match(text) or _HELD.match(text)
    if match is None or _AT_TIMES.search(text, match.end()):
        return None
    words = _WORD.findall(match["who"].lower())
    what = match["what"].lower() if match.re is _PROPERTY else str(match.lastgroup)
    return " ".join([word for word in words if word not in _NOBODY]), what


def _held_verbs() -> str:
    groups: dict[str, list[str]] = {}
    for language in (_EN, _DE):
        for name, verbs in language["held_verbs"].items():
            groups.setdefault(name, []).extend(verbs)
    return "|".join(f"(?P<{name}>{'|'.join(verbs)})" for name, verbs in groups.items())


_EN, _DE = read("en"), read("de")
_HELD: Final = re.compile(
    rf"(?P<who>[^.,;:!?]{{0,60}}?)\b(?i:(?:is|are|am|ist|bin) +)?"
    rf"(?i:(?:(?:{'|'.join(sorted(PASSED_OVER - DETERMINERS))}) +)?(?:{_held_verbs()})) +(?=[A-ZÄÖÜ])"
)
_PROPERTY: Final = re.compile(
    r"(?P<who>[^.,;:!?]{0,40}(?:'s|\b(?:my|our|his|her|their|the))) +"
    rf"(?P<what>{'|'.join(_EN['held_properties'])}) +is\b",
    re.IGNORECASE,
)
_AT_TIMES: Final = re.compile(f"{_EN['at_times']}|{_DE['at_times']}", re.IGNORECASE)
_ZH: Final = re.compile(read("zh")["held"].replace(" ", ""))
_ZH_NOBODY: Final = re.compile(read("zh")["nobody"])
_WORD: Final = re.compile(r"[\w'-]+")
_NOBODY: Final = SUBJECTS | DETERMINERS | {"user's"}
